-- A source with one more column, made of several, one after the other; NULL where one of these does not match its pattern,
-- so that no two places have the same text.
SELECT
    *,
    CASE
        WHEN {% for part in parts %}regexp_full_match({{ part | id }}, $part_{{ loop.index0 }}){% if not loop.last %} AND {% endif %}{% endfor %}

        THEN {% for part in parts %}{{ part | id }}{% if not loop.last %} || {% endif %}{% endfor %}

    END AS {{ made | id }}
FROM ({{ relation }})
