-- The number of places, Hispanic origins and races with more households by householder than persons in households, from
-- the published records.
WITH
person AS (
    SELECT {{ place | ids }}, CENHISP AS origin, least(CENRACE::INTEGER, 7) AS race, count(*) AS persons
    FROM {{ persons }}
    WHERE RTYPE = '3'
    GROUP BY ALL
),
household AS (
    SELECT {{ place | ids }}, THHSPAN AS origin, THHRACE::INTEGER AS race, count(*) AS households
    FROM {{ units }}
    WHERE TEN <> '0'
    GROUP BY ALL
)
SELECT count(*)
FROM household LEFT JOIN person USING ({{ place | ids }}, origin, race)
WHERE household.households > coalesce(person.persons, 0)
