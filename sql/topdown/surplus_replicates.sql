-- The number of rows that belong to none of the replicates, to no histogram, or to no place.
SELECT count(*)
FROM {{ replicates }}
WHERE
    {% include "topdown/surplus_rule.sql" %}
