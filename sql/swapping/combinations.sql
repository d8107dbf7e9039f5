-- How many values each column has, null included: multiplied, the number of cells if all combinations are listed.
SELECT {% for column in columns %}{% if not loop.first %}, {% endif %}count(DISTINCT {{ column | id }}) + (count(*) > count({{ column | id }}))::BIGINT{% endfor %}

FROM {{ table }}
