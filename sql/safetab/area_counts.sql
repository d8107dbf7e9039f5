-- The number of records of each area, set of members and finest cell.
SELECT area, number AS set_number, cell, count(*) AS count
FROM (
    {% include "safetab/records.sql" %}
)
JOIN (
    SELECT {{ key | id }} AS unit, areas.area FROM {{ units }} JOIN {{ areas }} AS areas USING ({{ columns | ids }})
) USING (unit)
JOIN (
    SELECT {{ codes | ids }}, number
    FROM {{ answers }}
    JOIN {{ answer_sets }} USING (answer)
    JOIN {{ sets }} USING (members)
) USING ({{ codes | ids }})
GROUP BY ALL
