-- The columns of a source whose values are of their types, as the CEF stores them.
SELECT
    {% for name, read in columns.items() %}
    {{ name | id }}::{{ read.stored }} AS {{ name | id }},
    {% endfor %}
FROM ({{ relation }})
