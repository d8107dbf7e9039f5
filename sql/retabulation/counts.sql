-- The records of each place by their attributes. The records are read once.
SELECT placed.number, {{ attributes | ids("record") }}, sum(record.count)::BIGINT AS count
FROM (
    SELECT {% include "topdown/code.sql" %} AS block, {{ attributes | ids }}, count(*) AS count
    FROM {{ records }}
    GROUP BY ALL
) AS record
JOIN {{ placed }} AS placed USING (block)
GROUP BY ALL
