-- The number of values of each column that occur, with null as a value. If every combination is listed, their product is
-- the number of cells.
SELECT {% for column in columns %}{% if not loop.first %}, {% endif %}count(DISTINCT {{ column | id }}) + (count(*) > count({{ column | id }}))::BIGINT{% endfor %}

FROM {{ table }}
