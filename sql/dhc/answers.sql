SELECT query, number, cells, answers
FROM {{ measurements }}
WHERE
    histogram = $histogram
    AND level = $level
    AND number >= $first
    AND number < $last
    {% if chosen %}
    AND list_contains($queries, query)
    {% endif %}
