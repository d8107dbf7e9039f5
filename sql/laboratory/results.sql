-- The mean of each measure over tracts and draws, and how far it varies. With several tracts, the standard error is that
-- of the mean of independent tracts, which has the variation of draws in it; with one, that of its draws.
WITH by_tract AS (
    SELECT
        point, attack, subset, block_size, measure, tract,
        avg(value) AS mean,
        var_samp(value) AS variance,
        max(value) AS greatest,
        count(*) AS draws,
        avg(persons) AS persons
    FROM {{ measures }}
    GROUP BY ALL
),
-- Beside each tract's mean, that of the same tract without protection: tracts differ more than methods do.
compared AS (
    SELECT by_tract.*, by_tract.mean - unprotected.mean AS difference
    FROM by_tract
    LEFT JOIN by_tract AS unprotected
        ON unprotected.point = $unprotected
        AND (unprotected.attack, unprotected.subset, unprotected.block_size, unprotected.measure, unprotected.tract)
            = (by_tract.attack, by_tract.subset, by_tract.block_size, by_tract.measure, by_tract.tract)
)
SELECT
    point, attack, subset, block_size, measure,
    avg(mean) AS value,
    CASE WHEN count(*) > 1 THEN stddev_samp(mean) / sqrt(count(*)) ELSE sqrt(max(variance) / max(draws)) END
        AS standard_error,
    avg(difference) AS difference,
    stddev_samp(difference) / sqrt(count(difference)) AS difference_error,
    max(greatest) AS greatest,
    sqrt(avg(variance)) AS sd_of_draws,
    stddev_samp(mean) AS sd_of_tracts,
    count(*) AS tracts,
    max(draws) AS draws,
    round(sum(persons))::BIGINT AS persons
FROM compared
GROUP BY ALL
ORDER BY ALL
