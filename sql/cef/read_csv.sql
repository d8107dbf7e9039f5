-- DuckDB guesses nothing, as form and header were checked: columns are identified by position, and all are text.
SELECT
    {% for name, position in columns.items() %}
    {{ position | id }} AS {{ name | id }},
    {% endfor %}
FROM read_csv(
    $path,
    auto_detect = false,
    header = true,
    columns = {
        {% for position in range(width) %}
        'c{{ position }}': 'VARCHAR',
        {% endfor %}
    },
    delim = $separator,
    quote = '"',
    escape = '"',
    nullstr = '',
    compression = 'none',
    strict_mode = true,
    null_padding = false,
    ignore_errors = false,
    parallel = {{ parallel }},
    hive_partitioning = false
)
