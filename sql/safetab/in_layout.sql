-- A table in the production layout: totals of groups, or the sums of measured cells by the columns of `cells`.
SELECT
    region_id AS "REGION_ID",
    region_type AS "REGION_TYPE",
    iteration_code AS "ITERATION_CODE",
    {% for name, column in columns.items() %}
    {{ column | id }} AS {{ name | id }},
    {% endfor %}
    sum(count)::BIGINT AS "COUNT"
FROM {{ measurements }}
{% if columns %}
JOIN {{ cells }} USING ({{ measured | ids }})
{% endif %}
GROUP BY ALL
