-- The number of places for which one table's count of a part exceeds the other table's count of the whole.
SELECT count(*)
FROM {{ one }} AS one
FULL JOIN {{ other }} AS other ON one.level = other.level AND one.geoid = other.geoid
WHERE (
    {% for part, whole in rules %}
    {% if not loop.first %}AND {% endif %}{{ part | id }} <= {{ whole | id }}
    {% endfor %}
) IS NOT TRUE
