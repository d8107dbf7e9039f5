-- Records with a key but without a place, records without a key, places with a key but without a record, places
-- without a key; then for each column that both files have the places that say otherwise.
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
