-- For each key, the number of units of the states in each run's universe. Included in other statements.
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
