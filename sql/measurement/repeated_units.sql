-- Keys that several units of the states bear, with how many units of each run's universe bear them.
SELECT
    MAFID,
    {% for run in truncation %}
    count(*) FILTER (
        {% include "measurement/unit_universe.sql" %}
    ) AS {{ run | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM {{ units }}
WHERE TABBLKST IN (SELECT unnest($states))
GROUP BY MAFID
HAVING count(*) > 1
