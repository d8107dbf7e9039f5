-- The records of a histogram: one for each unit of its counts, numbered from 1 by place and cell, with the codes of the
-- census files.
SELECT records.record, place.geoid, {{ attributes | ids("code") }}
FROM (
    SELECT number, cell, unnest(range(last - count + 1, last + 1)) AS record
    FROM (
        SELECT number, cell, count, sum(count) OVER (ORDER BY number, cell ROWS UNBOUNDED PRECEDING)::BIGINT AS last
        FROM {{ estimates }}
        WHERE histogram = $histogram
    )
) AS records
JOIN {{ spine }} AS place ON place.level = $finest AND place.number = records.number
JOIN {{ codes }} AS code ON code.cell = records.cell
ORDER BY records.record
