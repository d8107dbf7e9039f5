-- The number of rows by which two tables differ as multisets: how much more often each row is in one than in the other.
SELECT coalesce(sum(abs(surplus)), 0)::BIGINT
FROM (
    SELECT sum(sign) AS surplus
    FROM (
        SELECT {{ columns | ids }}, 1 FROM {{ first }}
        UNION ALL
        SELECT {{ columns | ids }}, -1 FROM {{ second }}
    ) AS rows({% for _ in columns %}value_{{ loop.index0 }}, {% endfor %}sign)
    GROUP BY {% for _ in columns %}value_{{ loop.index0 }}{% if not loop.last %}, {% endif %}{% endfor %}

)
