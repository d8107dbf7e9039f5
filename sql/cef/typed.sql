SELECT
    {% for name, type in columns.items() %}
    {% include "cef/typed_column.sql" %}
    AS {{ name | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM ({{ relation }})
