-- A record for each estimated household, vacant unit and facility, in the order of blocks: households by cell, then
-- vacant units and facilities. Of a block's households that own nothing, as many as its units say pay no rent.
WITH
rent_free AS (
    SELECT number, count FROM {{ estimates }} WHERE level = $finest AND histogram = 'units' AND cell = 3
),
household AS (
    SELECT
        counted.number,
        0 AS part,
        counted.cell,
        counted.copy,
        cell // {{ inner.hhtenshort_3lev }} % 3 AS tenure,
        CASE WHEN tenure = 2 THEN row_number() OVER (PARTITION BY counted.number, tenure ORDER BY counted.cell, counted.copy) END AS renter
    FROM (
        SELECT number, cell, unnest(range(count)) AS copy
        FROM {{ estimates }}
        WHERE level = $finest AND histogram = 'households'
    ) AS counted
),
unit AS (
    SELECT
        household.number,
        household.part,
        household.cell,
        household.copy,
        '2' AS RTYPE,
        '000' AS GQTYPE,
        CASE WHEN tenure = 2 AND renter <= coalesce(rent_free.count, 0) THEN '4' ELSE (1 + tenure)::VARCHAR END AS TEN,
        '0' AS VACS,
        code.HHSIZE,
        code.HHT,
        code.HHT2,
        code.CPLT,
        code.UPART,
        code.MULTG,
        (1 + household.cell // {{ inner.hhage }} % 9)::VARCHAR AS THHLDRAGE,
        (1 + household.cell // {{ inner.hisp }} % 2)::VARCHAR AS THHSPAN,
        lpad((1 + household.cell // {{ inner.race }} % 7)::VARCHAR, 2, '0') AS THHRACE,
        code.PAOC,
        code.TP18,
        $present[1 + household.cell // {{ inner.elderly }} % 4] AS present,
        code.PAC,
        (1 + household.cell // {{ inner.sex }})::VARCHAR AS HHSEX
    FROM household
    LEFT JOIN rent_free USING (number)
    JOIN {{ households }} AS code
        ON code.sex = household.cell // {{ inner.sex }} AND code.type = household.cell % {{ inner.hhtenshort_3lev }}
    UNION ALL
    SELECT
        counted.number,
        1,
        counted.cell,
        counted.copy,
        CASE WHEN counted.cell <= 10 THEN '2' ELSE '4' END,
        CASE WHEN counted.cell <= 10 THEN '000' ELSE $quarters[counted.cell - 10] END,
        '0',
        CASE WHEN counted.cell <= 10 THEN (counted.cell - 3)::VARCHAR ELSE '0' END,
        0, '0', '00', '0', '0', '0', '0', '0', '00', '0', '0', '000', '0', '0'
    FROM (
        SELECT number, cell, unnest(range(count)) AS copy
        FROM {{ estimates }}
        WHERE level = $finest AND histogram = 'units' AND cell > 3
    ) AS counted
)
SELECT
    row_number() OVER (ORDER BY unit.number, unit.part, unit.cell, unit.copy) AS record,
    {% include "dhc/place_columns.sql" %}
    unit.RTYPE, unit.GQTYPE, unit.TEN, unit.VACS, unit.HHSIZE, unit.HHT, unit.HHT2, unit.CPLT, unit.UPART, unit.MULTG,
    unit.THHLDRAGE, unit.THHSPAN, unit.THHRACE, unit.PAOC, unit.TP18,
    unit.present[1] AS TP60, unit.present[2] AS TP65, unit.present[3] AS TP75,
    unit.PAC, unit.HHSEX
FROM unit
JOIN {{ spine }} AS place ON place.level = $finest AND place.number = unit.number
ORDER BY record
