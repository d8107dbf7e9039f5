-- DuckDB guesses nothing, as form and header were checked: columns are identified by position, and all are text.
SELECT
    {% for name, (position, kind) in columns.items() %}
    {% include "cef/as_usual.sql" %}
    AS {{ name | id }},
    {% endfor %}
{% if decoded.text %}
FROM {{ decoded }}
{% else %}
FROM read_csv(
    $path,
    auto_detect = false,
    header = true,
    columns = {
        {% for position in range(width) %}
        'c{{ position }}': 'VARCHAR',
        {% endfor %}
    },
    delim = {{ separator }},
    quote = {{ quote }},
    escape = {{ escape }},
    nullstr = '',
    compression = {{ compression }},
    strict_mode = true,
    null_padding = false,
    ignore_errors = false,
    parallel = {{ parallel }},
    hive_partitioning = false
)
{% endif %}
