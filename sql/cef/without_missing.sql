-- A source in which codes for no value are NULL, and numbers are not filled up with zeros.
SELECT
    {% for name in columns %}
    {% if name in missing %}
    CASE WHEN NOT list_contains({{ missing[name] }}, {{ name | id }}) THEN
    {% endif %}
    {% if name in filled_up %}
    regexp_replace({{ name | id }}, '^(-?)0+([0-9])', '\1\2')
    {% else %}
    {{ name | id }}
    {% endif %}
    {% if name in missing %}
    END
    {% endif %}
    AS {{ name | id }},
    {% endfor %}
FROM {{ relation }}
