COPY (SELECT {{ columns | ids }} FROM {{ table }}
{% for column, total in order %}
    {% if loop.first %}ORDER BY {% endif %}
    {% if total %}NOT {{ total | id }}, {% endif %}
    {{ column | id }}{% if not loop.last %}, {% endif %}

{% endfor %}
)
TO {{ path }}
{% if missing is none %}
(FORMAT parquet, COMPRESSION zstd)
{% else %}
(FORMAT csv, HEADER true, DELIMITER {{ delimiter }}, QUOTE '"', ESCAPE '"', NULLSTR {{ missing }})
{% endif %}
