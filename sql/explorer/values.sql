-- The combinations of values of some columns that occur in a published file where others have given values.
SELECT DISTINCT {{ columns | ids }}
FROM {{ source }}
WHERE
    true
{% for column in equal %}
    AND {{ column | id }} = ${{ equals }}{{ loop.index }}
{% endfor %}
ORDER BY ALL
LIMIT $most
