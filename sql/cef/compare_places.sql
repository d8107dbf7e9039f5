-- The numbers of records with a key but without a place, of records without a key, of places with a key but without a
-- record, and of places without a key; then, for each column in both files, the number of places with another value.
SELECT
    count(*) FILTER (WHERE record.{{ key | id }} IS NOT NULL AND place.{{ key | id }} IS NULL),
    (SELECT count(*) FROM {{ records }} WHERE {{ key | id }} IS NULL),
    count(*) FILTER (WHERE place.{{ key | id }} IS NOT NULL AND record.{{ key | id }} IS NULL),
    (SELECT count(*) FROM {{ places }} WHERE {{ key | id }} IS NULL)
    {% for name in shared %}
    , count(*) FILTER (
        WHERE place.{{ key | id }} = record.{{ key | id }}
            AND record.{{ name | id }} IS DISTINCT FROM place.{{ name | id }}
    )
    {% endfor %}
FROM {{ records }} AS record
FULL JOIN {{ places }} AS place ON place.{{ key | id }} = record.{{ key | id }}
