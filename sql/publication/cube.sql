-- The cells of a table: places and ids of codes, figures and attributes as texts of the CSV file, and statuses. In
-- attributes, � stands for each character that XML has no place for.
WITH cells AS (
    SELECT
{% for listed, _ in codes %}
        {{ listed }}.{{ code_place | id }} AS at_{{ loop.index0 }},
        {{ listed }}.{{ code_id | id }} AS code_{{ loop.index0 }},
{% endfor %}
{% for name in figures %}
        rows.{{ name | id }}::VARCHAR AS figure_{{ loop.index0 }},
{% endfor %}
{% for name in attributes %}
        nullif(
            regexp_replace(
                rows.{{ name | id }}::VARCHAR, '[^\t\n\r\x20-\x{FFFD}\x{10000}-\x{10FFFF}]', chr(65533), 'g'
            ),
            ''
        ) AS attribute_{{ loop.index0 }},
{% endfor %}
        CASE
{% if suppressed %}
            WHEN rows.{{ suppressed | id }} THEN 'Q'
{% endif %}
            WHEN coalesce(
{% for name in figures %}
                rows.{{ name | id }}::VARCHAR{% if not loop.last %},{% endif %}

{% endfor %}
            ) IS NULL THEN 'O'
            ELSE $normal
        END AS status
    FROM {{ table }} AS rows
{% for listed, keys in codes %}
    JOIN {{ listed }} ON {{ keys | same("rows", listed) }}
{% endfor %}
)
SELECT *, if(status = 'Q', 'N', 'F') AS confidentiality FROM cells
