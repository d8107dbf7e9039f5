-- The units with the numbers of adults and minors, their persons as one text, and whether they may be swapped: occupied
-- housing units that are not imputed.
SELECT
    units.*,
    coalesce(people.adults, 0) AS adults,
    coalesce(people.minors, 0) AS minors,
    coalesce(people.composition, '') AS composition,
    units.RTYPE = '2' AND people.unit_key IS NOT NULL
    {% if imputed %} AND NOT coalesce(list_contains($imputed, units.{{ imputed | id }}::VARCHAR), false){% endif %} AS swappable
FROM {{ units }} AS units
LEFT JOIN (
    SELECT
        unit_key,
        count(*) FILTER (QAGE >= $adult) AS adults,
        count(*) FILTER (QAGE < $adult) AS minors,
        {% include "cef/persons_as_text.sql" %} AS composition
    FROM (
        SELECT
            {{ key | id }} AS unit_key,
            QAGE,
            {% include "cef/person_as_text.sql" %} AS person
        FROM {{ persons }}
    )
    GROUP BY unit_key
) AS people ON units.{{ key | id }} = people.unit_key
