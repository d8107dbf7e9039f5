SELECT query, number, cells, answers
FROM {{ measurements }}
WHERE histogram = $histogram AND level = $level
