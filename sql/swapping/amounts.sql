-- To which cells of a product, by holding variables and variables of persons, each combination of holding values counts,
-- and how much: its persons with the values, or 1 if records are counted.
SELECT
    holding.stratum, holding.holding_code, holding.count
    {% for column in held %}, holding.{{ column | id }}{% endfor %}
    {% if persons %}
    {% for column in of_persons %}, persons.{{ column | id }}{% endfor %},
    sum(persons.persons)::BIGINT AS persons
FROM {{ holding }} AS holding
JOIN {{ persons }} AS persons USING (holding_code)
GROUP BY ALL
    {% else %}
    , 1::BIGINT AS persons
FROM {{ holding }} AS holding
    {% endif %}
