-- The regions of the given types that each area lies in.
SELECT area, region.type AS region_type, region.id AS region_id
FROM (
    SELECT
        area,
        unnest(CASE
            WHEN TABBLKST = '72'
            THEN [
                {'type': 'PR-STATE', 'id': TABBLKST},
                {'type': 'PR-COUNTY', 'id': TABBLKST || TABBLKCOU},
                {'type': 'PR-TRACT', 'id': TABBLKST || TABBLKCOU || TABTRACTCE},
                {'type': 'PR-PLACE', 'id': TABBLKST || nullif(PLACEFP, '99999')}
            ]
            ELSE [
                {'type': 'USA', 'id': '1'},
                {'type': 'STATE', 'id': TABBLKST},
                {'type': 'COUNTY', 'id': TABBLKST || TABBLKCOU},
                {'type': 'TRACT', 'id': TABBLKST || TABBLKCOU || TABTRACTCE},
                {'type': 'PLACE', 'id': TABBLKST || nullif(PLACEFP, '99999')},
                {'type': 'AIANNH', 'id': nullif(AIANNHCE, '9999')}
            ]
        END) AS region
    FROM {{ areas }}
)
WHERE region.id IS NOT NULL AND region.type IN (SELECT unnest($region_types))
