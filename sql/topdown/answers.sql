-- The noisy answers to all queries or to some in the places from `first` up to but excluding `last`, as stored or in
-- order.
SELECT query, number, answers
FROM {{ measurements }}
WHERE
    histogram = $histogram
    AND level = $level
    AND number >= $first
    AND number < $last
    {% if some %}
    AND list_contains($queries, query)
    {% endif %}
{% if in_order %}
ORDER BY query, number
{% endif %}
