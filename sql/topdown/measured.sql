-- The noisy answers in the places from `first` up to but excluding `last`: to some queries, or to all.
SELECT histogram, level, query, number, answers
FROM {{ measurements }}
WHERE
    histogram = $histogram
    AND level = $level
    AND number >= $first
    AND number < $last
    {% if not strict %}
    AND list_contains($queries, query)
    {% endif %}
