-- The numbers of the partitions, from 0, with keys that several rows of all partitions have.
SELECT DISTINCT part
FROM (
    SELECT part, key, count(*) OVER (PARTITION BY key) AS records
    FROM (
        {% for table in tables %}
        SELECT {{ loop.index0 }} AS part, {{ key | id }} AS key FROM {{ table }}
        {% if not loop.last %}
        UNION ALL
        {% endif %}
        {% endfor %}
    )
)
WHERE key IS NOT NULL AND records > 1
ORDER BY part
