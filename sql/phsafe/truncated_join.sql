-- Truncate and join (Algorithm 3) for all runs at once: one row for each pair of a person and a unit with the same key,
-- and one column for each run that says whether the row is in the run's join.
WITH
joinable_units AS (
    SELECT
        {{ unit_columns | ids("units") }},
        {% for run in truncation %}
        coalesce(repeated.{{ run | id }}, 1) = 1 AND (
            {% include "phsafe/unit_universe.sql" %}
        ) AS {{ run | id }}{% if not loop.last %},{% endif %}

        {% endfor %}
    FROM {{ units }} AS units
    LEFT JOIN {{ repeated }} AS repeated ON units.MAFID = repeated.MAFID
    WHERE units.TABBLKST IN (SELECT unnest($states))
),
-- Equal records are numbered, so that no two have the same digest. It does not matter which record gets which number.
hashed_persons AS (
    SELECT
        {{ person_columns | ids }},
        sha256(concat(
            row_number() OVER (PARTITION BY {{ person_columns | ids }})
            {% for column in person_columns %}
            , '|', strlen({{ column | id }}::VARCHAR), ':', {{ column | id }}
            {% endfor %}
        )) AS digest
    FROM {{ persons }}
    SEMI JOIN {{ crowded }} USING (MAFID)
),
kept_persons AS (
    SELECT
        {{ person_columns | ids }},
        {% for run in truncation %}
        (
            {% include "phsafe/person_universe.sql" %}
        ) AS {{ run | id }}{% if not loop.last %},{% endif %}

        {% endfor %}
    FROM {{ persons }}
    ANTI JOIN {{ crowded }} USING (MAFID)
    UNION ALL
    SELECT
        {{ person_columns | ids }},
        {% for run, threshold in truncation.items() %}
        (
            {% include "phsafe/person_universe.sql" %}
        ) AND count(*) FILTER (
            {% include "phsafe/person_universe.sql" %}
        ) OVER by_digest <= {{ threshold }} AS {{ run | id }}{% if not loop.last %},{% endif %}

        {% endfor %}
    FROM hashed_persons
    WINDOW by_digest AS (PARTITION BY MAFID ORDER BY digest ROWS UNBOUNDED PRECEDING)
)
SELECT
    {{ unit_columns | ids("units") }},
    {{ person_columns[1:] | ids("persons") }},
    {% for run in truncation %}
    persons.{{ run | id }} AND units.{{ run | id }} AS {{ run | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM kept_persons AS persons
JOIN joinable_units AS units ON persons.MAFID = units.MAFID
