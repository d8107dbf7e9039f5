-- The person records of a census in the production layout, with the place of their unit.
SELECT {{ columns | ids }}
FROM (
    SELECT *, CASE RELSHIP WHEN '20' THEN 'True' ELSE 'False' END AS HOUSEHOLDER
    FROM {{ persons }}
    JOIN {{ units }} USING (MAFID)
)
