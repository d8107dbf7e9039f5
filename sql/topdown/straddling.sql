-- The number of codes of a level that lie in more than one place of the level above, and the number of all codes.
SELECT count(*) FILTER (WHERE parents > 1), count(*)
FROM (
    SELECT count(DISTINCT {{ above | id }}) AS parents
    FROM {{ places }}
    GROUP BY {{ level | id }}
)
