-- The number of records with a code that is not in the list, by the number of the column; none for columns without one.
-- The text Null stands for no further race code.
SELECT position, sum(records)::BIGINT AS records
FROM (
    {% for column in codes %}
    SELECT {{ loop.index0 }} AS position, {{ column | id }} AS code, count(*) AS records
    FROM (
        {% include "safetab/records.sql" %}
    )
    {% if column not in ('QRACE1', 'QSPAN') %}
    WHERE {{ column | id }} <> 'Null'
    {% endif %}
    GROUP BY ALL
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
)
ANTI JOIN {{ known }} USING (code)
GROUP BY position
ORDER BY position
