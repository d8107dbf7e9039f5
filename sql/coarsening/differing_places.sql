-- How many numbers of records, in the places that are published at one level, by the kept variables, are not exact.
WITH published AS (
    SELECT {{ (places + kept) | ids }}{% if places or kept %},{% endif %} sum(count) AS count
    FROM {{ records }}
    {% if places %}WHERE {{ places[-1] | id }} IS NOT NULL{% endif %}
    GROUP BY ALL
),
exact AS (
    SELECT {{ (places + kept) | ids }}{% if places or kept %},{% endif %} sum(count) AS count
    FROM {{ exact }}
    {% if places %}WHERE ({{ places | ids }}) IN (SELECT ({{ places | ids }}) FROM published){% endif %}
    GROUP BY ALL
)
SELECT count(*) FROM ((FROM published EXCEPT FROM exact) UNION ALL (FROM exact EXCEPT FROM published))
