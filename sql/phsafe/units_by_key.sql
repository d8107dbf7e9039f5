-- How many units of each run's universe in the states bear each key; a part of other statements.
SELECT
    MAFID,
    {% for run in truncation %}
    count(*) FILTER (
        {% include "phsafe/unit_universe.sql" %}
    ) AS {{ run | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM {{ units }}
WHERE TABBLKST IN (SELECT unnest($states))
GROUP BY MAFID
