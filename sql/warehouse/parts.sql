-- All rows of a table, as a union of one more part than `starts`, the numbers of the first rows of all but the first part.
(
    SELECT * FROM {{ table }} WHERE rowid < {{ starts[0] }}
    {% for start in starts %}
    UNION ALL
    SELECT * FROM {{ table }} WHERE rowid >= {{ start }}{% if not loop.last %} AND rowid < {{ starts[loop.index] }}{% endif %}

    {% endfor %}
)
