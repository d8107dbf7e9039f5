-- For each pair of columns, how many combinations of their values occur.
SELECT
    {% for inner, outer in pairs %}
    count(DISTINCT ({{ inner | id }}, {{ outer | id }})),
    {% endfor %}
FROM {{ relation }}
