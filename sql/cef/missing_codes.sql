-- The codes of a column that a codebook, or the file of a statistical package, lists as no value, with their rows.
SELECT {{ name | id }} AS code, count(*) AS rows
FROM {{ relation }}
WHERE
    regexp_full_match({{ name | id }}, '\.[A-Za-z_]')
    OR list_contains($texts, {{ name | id }})
    {% for range in range(ranges) %}
    OR TRY_CAST({{ name | id }} AS DOUBLE) BETWEEN $low_{{ range }} AND $high_{{ range }}
    {% endfor %}
GROUP BY ALL
ORDER BY rows DESC, code
LIMIT $most
