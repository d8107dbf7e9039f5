-- The units, each with its persons written as one text. Every person is a sequence of length-prefixed values, and the
-- persons are sorted, so that units with the same persons have the same text. An aggregate with an order takes four times
-- as long.
SELECT
    units.{{ key | id }} AS unit_key,
    {{ variables | ids("units") }},
    coalesce(grouped.composition, '') AS composition
FROM {{ units }} AS units
LEFT JOIN (
    SELECT unit_key, array_to_string(list_sort(list(person)), '') AS composition
    FROM (
        SELECT
            {{ unit | id }} AS unit_key,
            {% include "cef/person_as_text.sql" %} AS person
        FROM {{ persons }}
    )
    GROUP BY unit_key
) AS grouped ON units.{{ key | id }} = grouped.unit_key
