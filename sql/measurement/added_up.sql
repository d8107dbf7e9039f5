-- The counts of all partitions, added up.
SELECT {{ keys | ids }}, sum(count)::BIGINT AS count
FROM (
    {% include "warehouse/united.sql" %}
)
GROUP BY ALL
