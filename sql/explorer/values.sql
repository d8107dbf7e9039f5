SELECT DISTINCT {{ columns | ids }}
FROM {{ source }}
WHERE
    true
{% for column in equal %}
    AND {{ column | id }} IS NOT DISTINCT FROM ${{ equals }}{{ loop.index }}
{% endfor %}
ORDER BY ALL
LIMIT $most
