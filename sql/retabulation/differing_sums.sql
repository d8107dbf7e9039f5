-- The number of places for which a table differs from the sums of the release's own table of blocks.
SELECT count(*)
FROM {{ table }} AS stored
FULL JOIN (
    SELECT placed.level, placed.geoid{% for column in columns %}, sum(published.{{ column | id }}) AS {{ column | id }}{% endfor %}

    FROM {{ placed }} AS placed
    JOIN {{ published }} AS published ON published.geoid = placed.block
    GROUP BY ALL
) AS summed USING (level, geoid)
WHERE NOT ({{ columns | same("stored", "summed") }})
