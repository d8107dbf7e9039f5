-- The counts or sums of all partitions, added up. A sum that 64 bits do not hold is none; counts of records never are so large.
SELECT {{ keys | ids }}, TRY_CAST(sum(count) AS BIGINT) AS count
FROM (
    {% include "warehouse/united.sql" %}
)
GROUP BY ALL
