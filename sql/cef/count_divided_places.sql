-- The number of records in places that are in several larger places.
SELECT coalesce(sum(records), 0)
FROM (
    SELECT count(*) AS records
    FROM {{ table }}
    WHERE {{ place | id }} IS NOT NULL
    GROUP BY {{ place | id }}
    HAVING count(DISTINCT {{ larger | id }}) + (count(*) > count({{ larger | id }}))::BIGINT > 1
)
