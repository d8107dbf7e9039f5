-- Estimates that are missing or negative, or do not lie in their interval. Decimals and integers are always finite.
SELECT count(*)
FROM {{ table }}
WHERE (0 <= lower AND lower <= estimate AND estimate <= upper) IS NOT TRUE
