-- The number of cells if every combination of the columns' values is listed.
SELECT ({% for column in columns %}{% if not loop.first %} * {% endif %}count(DISTINCT {{ column | id }})::HUGEINT{% endfor %})
FROM {{ table }}
