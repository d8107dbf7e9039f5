-- What the records of each combination of holding values add to a product: to which of its cells, by holding variables
-- and by variables of persons, and how much each.
SELECT
    holding.stratum, holding.holding_code, holding.count AS records
    {% for column in held %}, holding.{{ column | id }}{% endfor %}
    {% if persons %}
    {% for column in of_persons %}, persons.{{ column | id }}{% endfor %}
    , sum(persons.persons)::BIGINT AS counted
FROM {{ holding }} AS holding
JOIN {{ persons }} AS persons USING (holding_code)
GROUP BY ALL
    {% else %}
    , 1::BIGINT AS counted
FROM {{ holding }} AS holding
    {% endif %}
