-- The joined records or units that each run counts, by state, by the race and ethnicity that define the run's
-- iterations, and by cell. Runs with the same grouping share a grouping set, so that one pass over the records serves
-- all runs.
SELECT run, TABBLKST, race, hispanic, cell, sum(count)::BIGINT AS count
FROM (
    UNPIVOT (
        SELECT
            TABBLKST,
            coalesce(HHRACE, CENRACE) AS race,
            coalesce(HHSPAN, CENHISP) AS hispanic,
            {{ runs | ids }},
            count(*) AS count
        FROM (
            {% if truncation %}
            SELECT
                TABBLKST, HHRACE, HHSPAN, CENRACE, CENHISP,
                {% for run in truncation %}
                CASE WHEN {{ run | id }} THEN (
                    {% include "phsafe/cell.sql" %}
                ) END AS {{ run | id }}{% if not loop.last %},{% endif %}

                {% endfor %}
            FROM (
                {% include "phsafe/truncated_join.sql" %}
            )
            UNION ALL BY NAME
            {% endif %}
            SELECT
                TABBLKST, HHRACE, HHSPAN, NULL::VARCHAR AS CENRACE, NULL::VARCHAR AS CENHISP
                {% for run in unit_runs %}
                , CASE WHEN (
                    {% include "phsafe/unit_universe.sql" %}
                ) THEN (
                    {% include "phsafe/cell.sql" %}
                ) END AS {{ run | id }}
                {% endfor %}
            FROM {{ units }}
            WHERE TABBLKST IN (SELECT unnest($states))
        )
        GROUP BY GROUPING SETS (
            {% for columns in grouping_sets %}
            ({{ columns | ids }}){% if not loop.last %},{% endif %}

            {% endfor %}
        )
    ) ON {{ runs | ids }} INTO NAME run VALUE cell
)
GROUP BY run, TABBLKST, race, hispanic, cell
ORDER BY ALL
