-- The groups that are not in exactly one of the tables of a family.
SELECT count(*)
FROM (
    SELECT groups.number, count(found."REGION_ID") AS times
    FROM {{ groups }} AS groups
    JOIN {{ measured }} AS measured USING (region_type, level)
    LEFT JOIN (
        {% for table in tables %}
        SELECT DISTINCT "REGION_ID", "REGION_TYPE", "ITERATION_CODE" FROM {{ table }}
        {% if not loop.last %}
        UNION ALL
        {% endif %}
        {% endfor %}
    ) AS found
        ON found."REGION_ID" = groups.region_id
        AND found."REGION_TYPE" = groups.region_type
        AND found."ITERATION_CODE" = groups.iteration_code
    GROUP BY groups.number
)
WHERE times <> 1
