-- The persons of counted units, each with the variables of the unit.
SELECT units.* EXCLUDE (count), persons.* EXCLUDE (holding_code, persons), units.count * persons.persons AS count
FROM {{ units }} AS units
JOIN {{ persons }} AS persons USING (holding_code)
