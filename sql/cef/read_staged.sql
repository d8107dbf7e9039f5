-- The staged variables of a statistical package's file as texts: a number as the shortest decimal that stands for it, a
-- special missing value as its letter after a point, and a date in ISO 8601 if it is a whole number of days.
SELECT
    {% for name, column in columns.items() %}
    {% if column.kind == "text" %}
    nullif({{ column.source | id }}, '') AS {{ name | id }},
    {% else %}
    CASE
        WHEN {{ column.letter | id }} IS NOT NULL THEN '.' || chr({{ column.letter | id }})
        {% if column.kind == "date" %}
        WHEN {{ column.source | id }} % {{ units }} = 0 AND abs({{ column.source | id }}) < {{ units }} * 4000000.0
        THEN ({{ epoch }} + ({{ column.source | id }} / {{ units }})::INTEGER)::VARCHAR
        {% endif %}
        WHEN {{ column.source | id }} = trunc({{ column.source | id }}) AND abs({{ column.source | id }}) < 9007199254740992
        THEN {{ column.source | id }}::BIGINT::VARCHAR
        ELSE {{ column.source | id }}::VARCHAR
    END AS {{ name | id }},
    {% endif %}
    {% endfor %}
FROM {{ table }}
