-- Published records by place of the finest level and cell of their histogram, in the numbers of our own spine.
SELECT $histogram AS histogram, place.number, code.cell, count(*) AS count
FROM {{ records }} AS record
JOIN {{ codes }} AS code ON {{ attributes | same("record", "code") }}
JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = record.geoid
GROUP BY ALL
ORDER BY place.number, code.cell
