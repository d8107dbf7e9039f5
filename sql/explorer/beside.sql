-- A published table with the linear estimates of one of its numbers, which are in another file.
(
    SELECT shown.*
    {% for name, own in columns %}
    , beside.{{ own | id }} AS {{ name | id }}
    {% endfor %}
    FROM {{ shown }} AS shown
    LEFT JOIN {{ beside }} AS beside USING ({{ place | ids }})
)
