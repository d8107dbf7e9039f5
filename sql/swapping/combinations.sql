-- How many cells columns span if every combination of their values is listed.
SELECT ({% for column in columns %}{% if not loop.first %} * {% endif %}count(DISTINCT {{ column | id }})::HUGEINT{% endfor %})
FROM {{ table }}
