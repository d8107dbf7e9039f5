-- The number of cells of a derived file whose count or variance is not the sum over their measured cells.
SELECT count(*)
FROM (
    SELECT REGION_ID, REGION_TYPE, ITERATION_CODE, parts.cell, sum(COUNT) AS counted, sum(VARIANCE) AS spread
    FROM {{ source }} AS source
    JOIN (SELECT unnest($cells) AS cell, unnest($parts) AS part) AS parts ON source.{{ source_cell | id }} = parts.part
    GROUP BY ALL
) AS summed
FULL JOIN {{ derived }} AS derived
    ON summed.REGION_ID = derived.REGION_ID
    AND summed.REGION_TYPE = derived.REGION_TYPE
    AND summed.ITERATION_CODE = derived.ITERATION_CODE
    AND summed.cell = derived.{{ derived_cell | id }}
WHERE summed.counted IS DISTINCT FROM derived.COUNT OR summed.spread IS DISTINCT FROM derived.VARIANCE
