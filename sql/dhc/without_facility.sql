-- The number of places and types of group quarters with persons and without a facility.
SELECT count(*)
FROM (
    SELECT counted.number, quarters.type
    FROM {{ counts }} AS counted
    JOIN {{ quarters }} AS quarters ON quarters.relgq = counted.cell // {{ inner }}
    GROUP BY ALL
) AS lived
LEFT JOIN (
    SELECT DISTINCT ancestry.number, facility.type
    FROM {{ facilities }} AS facility
    JOIN {{ ancestry }} AS ancestry ON ancestry.finest = facility.number AND ancestry.depth = {{ depth }}
) AS facility USING (number, type)
WHERE facility.number IS NULL
