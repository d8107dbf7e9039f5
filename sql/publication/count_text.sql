-- Rows in which one of the text columns holds exactly this text.
SELECT count(*)
FROM {{ table }}
WHERE false
{% for column in columns %}
    OR {{ column | id }} = $text
{% endfor %}
