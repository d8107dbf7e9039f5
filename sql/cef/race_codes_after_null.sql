{# For each race code that can follow a Null: the number of rows in which it does. A list of columns whose names begin with
`prefix`, included in statements, never run alone. #}
{% for place in range(3, 9) %}
count(*) FILTER (
    WHERE {{ ("QRACE" ~ place) | id }} <> 'Null' AND {{ ("QRACE" ~ (place - 1)) | id }} = 'Null'
) AS {{ (prefix ~ "race_code_" ~ place) | id }},
{% endfor %}
