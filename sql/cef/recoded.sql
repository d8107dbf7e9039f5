{# Each column three times: as text, converted to its type, and recoded. NULL is what is ill-typed, or is in no band or
   category. Included in statements, never run alone. #}
SELECT
    *
    {% for name, read in columns.items() %}
    , {% with number = loop.index0 %}{% include "cef/recoded_column.sql" %}{% endwith %} AS recoded_{{ loop.index0 }}
    {% endfor %}
FROM (
    SELECT
        {% for name, read in columns.items() %}
        {{ name | id }} AS text_{{ loop.index0 }},
        {% with type = read.type %}{% include "cef/typed_column.sql" %}{% endwith %}
        AS typed_{{ loop.index0 }},
        {% endfor %}
    FROM ({{ relation }})
)
