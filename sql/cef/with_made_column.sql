-- A source with one more column, made of several, one after the other; NULL where one of these does not match its pattern.
-- Patterns of one length each, or the length before each text (`encoded`), keep different rows from having the same.
SELECT
    *,
    CASE
        WHEN {% for part in parts %}regexp_full_match({{ part | id }}, $part_{{ loop.index0 }}){% if not loop.last %} AND {% endif %}{% endfor %}

        THEN {% for part in parts %}{% if encoded %}strlen({{ part | id }}) || ':' || {% endif %}{{ part | id }}{% if not loop.last %} || {% endif %}{% endfor %}

    END AS {{ made | id }}
FROM ({{ relation }})
