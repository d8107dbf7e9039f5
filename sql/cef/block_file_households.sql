-- The household records of a census in the production layout: the occupied housing units, with the codes of the
-- householder. Nonfamily households are alike whatever the sex of the householder.
SELECT {{ columns | ids }}
FROM (
    SELECT *, CASE HHT WHEN '6' THEN '4' WHEN '7' THEN '5' ELSE HHT END AS HOUSEHOLD_TYPE
    FROM {{ units }}
    JOIN {{ persons }} USING (MAFID)
    WHERE RTYPE = '2' AND RELSHIP = '20'
)
