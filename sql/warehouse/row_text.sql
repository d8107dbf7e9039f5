{# A row as one text, unique to its values. Included in statements, never run alone. #}
concat(
    {% for column in columns %}
    strlen({{ column | id }}::VARCHAR), if({{ column | id }} IS NULL, '-', ':'), {{ column | id }}::VARCHAR{% if not loop.last %},{% endif %}

    {% endfor %}
)
