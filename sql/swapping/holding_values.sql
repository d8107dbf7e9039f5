-- The combinations of holding values that records may have after noise: in every stratum, all of the declared domains.
SELECT
    (strata.stratum::BIGINT * $combinations + domain.holding_code)::INTEGER AS holding_code,
    strata.stratum,
    {% if match %}{{ match | ids("strata") }}, {% endif %}{{ held | ids("domain") }}
FROM (SELECT DISTINCT stratum{% if match %}, {{ match | ids }}{% endif %} FROM {{ swapping }}) AS strata
CROSS JOIN {{ domain }} AS domain
ORDER BY ALL
