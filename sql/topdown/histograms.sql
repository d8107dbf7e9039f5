-- Persons and units of every place of the finest level, by cell of their histograms. Empty cells are left out.
WITH
unit AS (
    {% include "topdown/placed_units.sql" %}
),
person AS (
    SELECT
        unit.number,
        unit.GQTYPE::BIGINT AS hhgq,
        (person.QAGE >= 18)::BIGINT AS votingage,
        (person.CENHISP = '2')::BIGINT AS hispanic,
        person.CENRACE::BIGINT - 1 AS cenrace
    FROM {{ persons }} AS person
    JOIN unit ON unit.MAFID = person.MAFID
)
SELECT
    'persons' AS histogram,
    number,
    {% for attribute in attributes[1:] %}({% endfor %}{{ attributes[0].name | id }}{% for attribute in attributes[1:] %} * {{ attribute.size }} + {{ attribute.name | id }}){% endfor %}
 AS cell,
    count(*) AS count
FROM person
GROUP BY ALL
UNION ALL
SELECT 'units', number, (HHT = '0')::BIGINT, count(*)
FROM unit
WHERE RTYPE = '2'
GROUP BY ALL
ORDER BY histogram, number, cell
