SELECT number, cell, count
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
ORDER BY number, cell
