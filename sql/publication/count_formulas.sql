-- The number of rows in which one of the text columns begins with a sign of a formula and is no number.
SELECT count(*)
FROM {{ table }}
WHERE
    false
    {% for column in columns %}
    OR (list_contains($signs, {{ column | id }}[1]) AND NOT regexp_full_match({{ column | id }}, $number))
    {% endfor %}
