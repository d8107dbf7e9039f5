-- The number of rows that belong to none of the replicates, or to no histogram.
SELECT count(*)
FROM {{ replicates }}
WHERE
    (replicate IN (SELECT unnest($replicates::BIGINT[])) AND histogram IN (SELECT unnest($histograms::VARCHAR[])))
    IS NOT TRUE
