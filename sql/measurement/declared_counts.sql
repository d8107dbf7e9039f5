-- The count of every declared cell, zeros included, table by table. The records never determine which cells.
SELECT (row_number() OVER (ORDER BY number, cell) - 1)::BIGINT AS draw_order, table_name, cell, count
FROM (
    {% for table in tables %}
    SELECT {{ loop.index0 }} AS number, name.table_name, cells.cell, coalesce(counted.count, 0)::BIGINT AS count
    FROM {{ table.cells }} AS cells
    CROSS JOIN {{ table.name }} AS name
    LEFT JOIN (
        SELECT {{ table.columns | ids }}, count(*) AS count FROM {{ table.records }} GROUP BY ALL
    ) AS counted ON {{ table.columns | same("cells", "counted") }}
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
)
ORDER BY draw_order
