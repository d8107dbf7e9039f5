-- The number of distinct values of each column.
SELECT {% for column in columns %}{% if not loop.first %}, {% endif %}count(DISTINCT {{ column | id }}){% endfor %}

FROM {{ table }}
