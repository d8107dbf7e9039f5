-- How many records the margins publish exactly because no other record has the same values, from the margins alone.
-- Where a stratum has one swap value or one holding value, its margins determine its records with all their values.
SELECT
    coalesce(sum(held.records), 0)::BIGINT AS records,
    coalesce(sum(held.alone), 0)::BIGINT AS holding,
    coalesce(sum(swapped.alone), 0)::BIGINT AS swap,
    coalesce(
        sum(CASE WHEN swapped.combinations = 1 THEN held.alone WHEN held.combinations = 1 THEN swapped.alone ELSE 0 END),
        0
    )::BIGINT AS whole
FROM (
    SELECT
        {% if match %}{{ match | ids }}, {% endif %}
        sum(count) AS records,
        count(*) AS combinations,
        count(*) FILTER (count = 1) AS alone
    FROM {{ holding }}
    GROUP BY ALL
) AS held
JOIN (
    SELECT
        {% if match %}{{ match | ids }}, {% endif %}
        count(*) AS combinations,
        count(*) FILTER (count = 1) AS alone
    FROM {{ swapping }}
    GROUP BY ALL
) AS swapped ON {{ match | same("held", "swapped") }}
