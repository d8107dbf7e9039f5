-- The answers that a query of a DHC has in every place of a level.
SELECT number, answers
FROM {{ measurements }}
WHERE histogram = $histogram AND level = $level AND query = $query
ORDER BY number
