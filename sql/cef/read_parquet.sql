SELECT
    {% for name, source in columns.items() %}
    {{ source | id }}::VARCHAR AS {{ name | id }},
    {% endfor %}
FROM read_parquet($path, hive_partitioning = false, union_by_name = false)
