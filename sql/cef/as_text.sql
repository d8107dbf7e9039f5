-- A relation with its columns as text, as every source shows them.
SELECT
    {% for name in columns %}
    {{ name | id }}::VARCHAR AS {{ name | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM ({{ relation }})
