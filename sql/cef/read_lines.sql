-- The fields of fixed-width text as texts: without the blanks that fill them up, and with the decimal point that is implied.
-- DuckDB guesses nothing, as the form was checked: no line contains the separator, and nothing is quoted.
SELECT
    {% for name, field in columns.items() %}
    {% if field.decimals %}
    CASE
        WHEN NOT regexp_full_match({{ name | id }}, '-?[0-9]+') THEN {{ name | id }}
        WHEN length(ltrim({{ name | id }}, '-')) > {{ field.decimals }}
        THEN left({{ name | id }}, -{{ field.decimals }}) || '.' || right({{ name | id }}, {{ field.decimals }})
        ELSE left({{ name | id }}, length({{ name | id }}) - length(ltrim({{ name | id }}, '-')))
            || '0.' || lpad(ltrim({{ name | id }}, '-'), {{ field.decimals }}, '0')
    END AS
    {% endif %}
    {{ name | id }},
    {% endfor %}
FROM (
    SELECT
        {% for name, field in columns.items() %}
        nullif({% if field.number %}trim{% else %}rtrim{% endif %}(substr(line, {{ field.start + 1 }}, {{ field.width }}), ' '), '')
            AS {{ name | id }},
        {% endfor %}
    FROM read_csv(
        $path,
        auto_detect = false,
        header = false,
        columns = {'line': 'VARCHAR'},
        delim = chr(1),
        quote = '',
        escape = '',
        nullstr = '',
        compression = {{ compression }},
        encoding = 'latin-1',
        strict_mode = true,
        null_padding = false,
        ignore_errors = false,
        hive_partitioning = false
    )
    {% if of_type %}
    WHERE rtrim(substr(line, {{ of_type.start + 1 }}, {{ of_type.width }}), ' ') = {{ record_type }}
    {% endif %}
)
