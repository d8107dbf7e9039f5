-- How many counts the places from one to another have, of all histograms together.
SELECT number, count(*) AS cells
FROM {{ estimates }}
WHERE
    number >= $first
    AND number < $last
    {% if "level" in chosen %}
    AND level = $level
    {% endif %}
GROUP BY number
