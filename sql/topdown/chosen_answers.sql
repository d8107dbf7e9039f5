{# The answers to some queries, or to all, in the places from `first` up to but excluding `last`. Included in statements, never run alone. #}
FROM {{ measurements }}
WHERE
    histogram = $histogram
    AND level = $level
    AND number >= $first
    AND number < $last
    {% if chosen %}
    AND list_contains($queries, query)
    {% endif %}
