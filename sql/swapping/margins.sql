-- From the two margins alone: the number of strata; b, the size of the largest with two holding values or two swap values;
-- and how many records the margins publish exactly, as no other record has the same values. Where a stratum has one swap
-- value or one holding value, its margins determine its records with all their values.
WITH
{% for name, margin in (("held", holding), ("swapped", swapping)) %}
{{ name | id }} AS (
    SELECT
        {% if match %}{{ match | ids }}, {% endif %}
        sum(count) AS records,
        count(*) AS combinations,
        count(*) FILTER (count = 1) AS alone
    FROM {{ margin }}
    GROUP BY ALL
){% if not loop.last %},{% endif %}

{% endfor %}
SELECT
    count(*) AS strata,
    coalesce(max(held.records) FILTER (held.combinations > 1 OR swapped.combinations > 1), 0)::BIGINT AS largest,
    coalesce(sum(held.records), 0)::BIGINT AS records,
    coalesce(sum(held.alone), 0)::BIGINT AS holding,
    coalesce(sum(swapped.alone), 0)::BIGINT AS swap,
    coalesce(
        sum(CASE WHEN swapped.combinations = 1 THEN held.alone WHEN held.combinations = 1 THEN swapped.alone ELSE 0 END),
        0
    )::BIGINT AS whole
FROM held
JOIN swapped ON {{ match | same("held", "swapped") }}
