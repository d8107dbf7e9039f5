{# A row as one text, unique to its values. Included in statements, never run alone. The lengths that most texts of a large
table have are written out: making a text of a number takes longer than the rest. #}
concat(
    {% for column in columns %}
    {% if large is defined %}
    CASE strlen({{ column | id }}::VARCHAR)
        {% for length in range(1, 6) %}
        WHEN {{ length }} THEN '{{ length }}:'
        {% endfor %}
        ELSE coalesce(strlen({{ column | id }}::VARCHAR) || ':', '-')
    END,
    {% else %}
    strlen({{ column | id }}::VARCHAR), if({{ column | id }} IS NULL, '-', ':'),
    {% endif %}
    {{ column | id }}::VARCHAR{% if not loop.last %},{% endif %}

    {% endfor %}
)
