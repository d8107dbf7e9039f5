-- The number of estimates that are missing, negative or outside their interval. Decimals and integers are always finite.
SELECT count(*)
FROM {{ table }}
WHERE (0 <= lower AND lower <= estimate AND estimate <= upper) IS NOT TRUE
