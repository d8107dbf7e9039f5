-- Columns as fixed-width text, filled up with blanks on the left.
COPY (
    SELECT concat(
        {% for name, width in widths.items() %}
        lpad({{ name | id }}::VARCHAR, {{ width }}, ' '){% if not loop.last %},{% endif %}

        {% endfor %}
    )
    FROM {{ rows }}
) TO {{ path }} (FORMAT csv, HEADER false, QUOTE '', DELIMITER '|')
