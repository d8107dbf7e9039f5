-- How many codes of a level lie in more than one place of the level above, and how many codes there are.
SELECT count(*) FILTER (WHERE parents > 1), count(*)
FROM (
    SELECT {{ level | id }}, count(DISTINCT {{ above | id }}) AS parents
    FROM {{ places }}
    GROUP BY {{ level | id }}
)
