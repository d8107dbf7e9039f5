-- The facilities of some places by the position of their type; NULL of a type that there is not.
SELECT own.number, types.cell, own.count
FROM {{ facilities }} AS own
LEFT JOIN {{ types }} AS types ON types.type = own.type
WHERE own.number >= $first AND own.number < $last
