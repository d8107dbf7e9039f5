-- The units, each with its persons written as one text.
SELECT
    units.{{ key | id }} AS unit_key,
    {{ variables | ids("units") }},
    coalesce(grouped.composition, '') AS composition
FROM {{ units }} AS units
LEFT JOIN (
    SELECT
        unit_key,
        {% include "cef/persons_as_text.sql" %} AS composition
    FROM (
        SELECT
            {{ unit | id }} AS unit_key,
            {% include "cef/person_as_text.sql" %} AS person
        FROM {{ persons }}
    )
    GROUP BY unit_key
) AS grouped ON units.{{ key | id }} = grouped.unit_key
