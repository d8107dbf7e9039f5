{# Of rows that belong to none of the replicates, to no histogram, or to no place. Included in statements, never run alone. #}
(
    list_contains($replicates::BIGINT[], replicate)
    AND list_contains($histograms::VARCHAR[], histogram)
    AND number >= 0
    AND number < $places
) IS NOT TRUE
