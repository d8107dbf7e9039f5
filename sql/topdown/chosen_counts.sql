{# The counts of places, of the level, histogram and replicate that are chosen. Included in statements, never run alone. #}
FROM {{ counts }}
WHERE
    number >= $first
    AND number < $last
    {% if "level" in chosen %}
    AND level = $level
    {% endif %}
    {% if "histogram" in chosen %}
    AND histogram = $histogram
    {% endif %}
    {% if "replicate" in chosen %}
    AND replicate = $replicate
    {% endif %}
