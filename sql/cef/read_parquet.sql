SELECT
    {% for name, source in columns.items() %}
    {{ source | id }}::VARCHAR AS {{ name | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM read_parquet($path, hive_partitioning = false, union_by_name = false)
