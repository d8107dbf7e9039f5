-- The numbers of records whose donor is no record, of records whose donor has a donor itself, and of donors whose answers
-- are in more than so many records.
WITH copied AS (
    SELECT record.{{ donor | id }} AS donor, source.{{ key | id }} AS found, source.{{ donor | id }} AS origin
    FROM {{ table }} AS record
    LEFT JOIN {{ table }} AS source ON source.{{ key | id }} = record.{{ donor | id }}
    WHERE record.{{ donor | id }} <> record.{{ key | id }}
)
SELECT
    count(*) FILTER (WHERE found IS NULL),
    count(*) FILTER (WHERE origin <> found),
    (SELECT count(*) FROM (SELECT donor FROM copied GROUP BY donor HAVING count(*) >= $copies))
FROM copied
