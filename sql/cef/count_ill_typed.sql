-- The number of records; then, for each column, the number of values that are not of its type.
SELECT
    count(*)
    {% for name, type in columns.items() %}
    , count(*) FILTER (WHERE {{ name | id }} IS NOT NULL AND (
        {% include "cef/typed_column.sql" %}
    ) IS NULL)
    {% endfor %}
FROM ({{ relation }})
