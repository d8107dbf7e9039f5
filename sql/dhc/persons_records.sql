-- A record for each estimated person, in the order of blocks and cells.
SELECT
    counted.record AS EPNUM,
    {% include "dhc/place_columns.sql" %}
    code.RTYPE,
    code.GQTYPE,
    code.RELSHIP,
    (1 + counted.cell // {{ inner.sex }} % 2)::VARCHAR AS QSEX,
    counted.cell // {{ inner.age }} % {{ ages }} AS QAGE,
    (1 + counted.cell // {{ inner.hispanic }} % 2)::VARCHAR AS CENHISP,
    lpad((1 + counted.cell % {{ inner.hispanic }})::VARCHAR, 2, '0') AS CENRACE,
    code.LIVE_ALONE
FROM (
    SELECT number, cell, unnest(range(last - count + 1, last + 1)) AS record
    FROM (
        SELECT number, cell, count, sum(count) OVER (ORDER BY number, cell ROWS UNBOUNDED PRECEDING)::BIGINT AS last
        FROM {{ estimates }}
        WHERE level = $finest AND histogram = 'persons'
    )
) AS counted
JOIN {{ relationships }} AS code ON code.relgq = counted.cell // {{ inner.relgq }}
JOIN {{ spine }} AS place ON place.level = $finest AND place.number = counted.number
ORDER BY counted.record
