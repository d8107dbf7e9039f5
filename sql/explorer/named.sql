-- A published table with the names of its places, which another one has.
(
    SELECT shown.*
    {% for name in names %}
    , named.{{ name | id }}
    {% endfor %}
    FROM {{ shown }} AS shown
    LEFT JOIN {{ named }} AS named USING ({{ place | ids }})
)
