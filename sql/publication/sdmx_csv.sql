COPY (
    SELECT
        'dataflow' AS "STRUCTURE",
        {{ structure }} AS "STRUCTURE_ID",
        'I' AS "ACTION"
{% for name, column in columns %}
        , {{ column | id }} AS {{ name | id }}
{% endfor %}
    FROM {{ cells }} AS cells
    ORDER BY {{ order | ids("cells") }}
)
TO {{ path }}
(FORMAT csv, HEADER true, DELIMITER ',', QUOTE '"', ESCAPE '"', NULLSTR '')
