-- The combinations of values that occur in some columns, with the words for the last of them, if a column has them.
SELECT {{ columns | ids }}
{% if named %}
    , min({{ named | id }}) AS {{ named | id }}
{% endif %}
FROM {{ table }}
GROUP BY {{ columns | ids }}
ORDER BY {{ columns | ids }}
