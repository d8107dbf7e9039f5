-- The counts of the places from `first` up to but excluding `last`, in the order of places and cells.
SELECT number, cell, count
FROM {{ counts }}
WHERE
    number >= $first
    AND number < $last
    {% if "histogram" in chosen %}
    AND histogram = $histogram
    {% endif %}
    {% if "replicate" in chosen %}
    AND replicate = $replicate
    {% endif %}
ORDER BY number, cell
