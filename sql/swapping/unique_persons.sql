SELECT coalesce(sum(persons.persons), 0)::BIGINT
FROM {{ persons }} AS persons
JOIN {{ holding }} AS holding USING (holding_code)
WHERE holding.count = 1
