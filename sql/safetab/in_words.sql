-- A table in words, with standard errors and 90% intervals: totals of groups, or sums of measured cells by `cells`.
SELECT
    region_type,
    region_id,
    coalesce(names.name, region_type || ' ' || region_id) AS region,
    level::INTEGER AS level,
    iteration_code,
    iterations.name AS iteration,
    {% for column in columns %}
    {{ column | id }},
    {% endfor %}
    estimate,
    errors.standard_error,
    estimate - errors.half_width AS lower,
    estimate + errors.half_width AS upper
FROM (
    SELECT
        region_type,
        region_id,
        level,
        iteration_code,
        {% for column in columns %}
        {{ column | id }},
        {% endfor %}
        sum(count)::BIGINT AS estimate,
        count(*) AS added
    FROM {{ measurements }}
    {% if columns %}
    JOIN {{ cells }} USING ({{ measured | ids }})
    {% endif %}
    GROUP BY ALL
)
JOIN {{ iterations }} AS iterations USING (iteration_code)
JOIN {{ errors }} AS errors USING (region_type, level, total_only, added)
LEFT JOIN {{ names }} AS names USING (region_type, region_id)
