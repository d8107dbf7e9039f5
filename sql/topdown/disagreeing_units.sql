-- The numbers of places with persons in households but no occupied unit, and with more occupied units than such persons.
WITH
living AS (
    SELECT number, sum(count) AS persons
    FROM {{ estimates }}
    WHERE histogram = $persons AND cell < $cells_of_households
    GROUP BY number
),
occupied AS (
    SELECT number, count AS units
    FROM {{ estimates }}
    WHERE histogram = $units AND cell = $occupied
)
SELECT
    count(*) FILTER (WHERE persons > 0 AND units IS NULL),
    count(*) FILTER (WHERE units > coalesce(persons, 0))
FROM living FULL JOIN occupied USING (number)
