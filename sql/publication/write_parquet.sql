COPY (SELECT {{ columns | ids }} FROM {{ table }} ORDER BY
{% for column, total, type in order %}
    {% if total %}{{ column | id }} IS DISTINCT FROM {{ total }}, {% endif %}
    TRY_CAST({{ column | id }} AS {{ type }}){% if not loop.last %}, {% endif %}

{% endfor %}
)
TO {{ path }} (FORMAT parquet, COMPRESSION zstd{% if row_group %}, ROW_GROUP_SIZE {{ row_group }}{% endif %})
