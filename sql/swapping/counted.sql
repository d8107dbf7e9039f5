-- The records by their values, with the least key of the units that have them.
SELECT
    {{ variables | ids }},
    {% if follow %}min(unit_key) AS unit_key,{% endif %}
    {{ number }} AS count
FROM {{ records }}
GROUP BY ALL
