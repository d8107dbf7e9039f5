SELECT (row_number() OVER ())::INTEGER AS answer, *
FROM (
    SELECT DISTINCT {{ codes | ids }}
    FROM (
        {% include "safetab/records.sql" %}
    )
)
