-- By cell, the sum of its records' keys modulo 2^128. The sums are exact: a sum of UBIGINT is a HUGEINT, which holds the
-- sums of 2^63 records. What the lower halves carry is added to the upper ones.
SELECT
    cell,
    ((upper_sum + lower_sum // 18446744073709551616) % 18446744073709551616)::UBIGINT AS key_upper,
    (lower_sum % 18446744073709551616)::UBIGINT AS key_lower
FROM (SELECT cell, sum(key_upper) AS upper_sum, sum(key_lower) AS lower_sum FROM {{ keys }} GROUP BY cell)
