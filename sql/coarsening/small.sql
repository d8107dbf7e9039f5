-- How many combinations of these columns have fewer records than a number.
SELECT count(*)
FROM (SELECT 1 FROM {{ records }} GROUP BY {{ columns | ids }} HAVING sum(count) < $least)
