-- What truncation and join leave out of each run, computed from the numbers of persons and units that share a key.
WITH
persons_by_key AS (
    SELECT
        MAFID,
        {% for run in truncation %}
        count(*) FILTER (
            {% include "phsafe/person_universe.sql" %}
        ) AS {{ run | id }}{% if not loop.last %},{% endif %}

        {% endfor %}
    FROM {{ persons }}
    GROUP BY MAFID
),
units_by_key AS (
    {% include "phsafe/units_by_key.sql" %}

)
SELECT unnest([
    {% for run, threshold in truncation.items() %}
    {
        'run': $runs[{{ loop.index }}],
        'truncation': {{ threshold }},
        'persons_in_universe': coalesce(sum(persons.{{ run | id }}), 0)::BIGINT,
        'persons_without_unit':
            coalesce(sum(persons.{{ run | id }}) FILTER (units.{{ run | id }} IS DISTINCT FROM 1), 0)::BIGINT,
        'persons_truncated':
            coalesce(
                sum(greatest(persons.{{ run | id }} - {{ threshold }}, 0)) FILTER (units.{{ run | id }} = 1), 0
            )::BIGINT,
        'persons_kept':
            coalesce(
                sum(least(persons.{{ run | id }}, {{ threshold }}))
                FILTER (units.{{ run | id }} = 1 AND persons.{{ run | id }} > 0), 0
            )::BIGINT,
        'units_truncated':
            count(*) FILTER (units.{{ run | id }} = 1 AND persons.{{ run | id }} > {{ threshold }}),
        'units_repeated': coalesce(sum(units.{{ run | id }}) FILTER (units.{{ run | id }} > 1), 0)::BIGINT
    }{% if not loop.last %},{% endif %}

    {% endfor %}
], recursive := true)
FROM persons_by_key AS persons
FULL JOIN units_by_key AS units ON persons.MAFID = units.MAFID
