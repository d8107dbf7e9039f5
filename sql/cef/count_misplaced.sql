-- The number of records in places that are declared to lie in another larger place.
SELECT count(*)
FROM {{ table }} AS records
JOIN {{ places }} AS places ON records.{{ place | id }} = places.code
WHERE records.{{ larger | id }} IS DISTINCT FROM places.larger
