-- The stratum of every combination of holding values, in the order of their numbers.
SELECT stratum FROM {{ holding }} ORDER BY holding_code
