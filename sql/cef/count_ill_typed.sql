-- The number of records; then, for each column, the number of values that are not of its type; of those among them that
-- are decimals with too many digits after the point; and of values that are of its type, but in none of its bands or
-- categories.
SELECT
    count(*)
    {% for read in columns.values() %}
    , count(*) FILTER (WHERE text_{{ loop.index0 }} IS NOT NULL AND typed_{{ loop.index0 }} IS NULL)
    {% if read.type == "decimal" %}
    , count(*) FILTER (
        WHERE typed_{{ loop.index0 }} IS NULL AND regexp_full_match(text_{{ loop.index0 }}, '-?[0-9]{0,14}\.[0-9]{5,}')
    )
    {% else %}
    , 0
    {% endif %}
    {% if read.recode in ("bands", "merge") %}
    , count(*) FILTER (WHERE typed_{{ loop.index0 }} IS NOT NULL AND recoded_{{ loop.index0 }} IS NULL)
    {% else %}
    , 0
    {% endif %}
    {% endfor %}
FROM ({% include "cef/recoded.sql" %})
