-- The number of records; then, for each column, the number of values that are not of its type, and of those that are
-- but are in none of its bands or categories.
SELECT
    count(*)
    {% for name in columns %}
    , count(*) FILTER (WHERE text_{{ loop.index0 }} IS NOT NULL AND typed_{{ loop.index0 }} IS NULL)
    , count(*) FILTER (WHERE typed_{{ loop.index0 }} IS NOT NULL AND recoded_{{ loop.index0 }} IS NULL)
    {% endfor %}
FROM ({% include "cef/recoded.sql" %})
