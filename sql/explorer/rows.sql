SELECT {{ columns | ids }}
FROM {{ source }}
WHERE
    {{ columns[0] | id }} IS NOT NULL
{% for column in equal %}
    AND {{ column | id }} IS NOT DISTINCT FROM ${{ equals }}{{ loop.index }}
{% endfor %}
ORDER BY {{ columns[0] | id }} DESC, {{ columns[1:] | ids }}
LIMIT $most
