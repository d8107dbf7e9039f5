-- The number of rows in which the column made of several cannot be made; then, for each of these, the number of values that
-- are NULL, and of those that do not match its pattern.
SELECT
    count(*) FILTER (WHERE {{ made | id }} IS NULL)
    {% for part in parts %}
    , count(*) FILTER (WHERE {{ part | id }} IS NULL)
    , count(*) FILTER (WHERE NOT regexp_full_match({{ part | id }}, $part_{{ loop.index0 }}))
    {% endfor %}
FROM ({{ relation }})
