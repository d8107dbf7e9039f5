-- From the two margins alone: the number of strata; b, the size of the largest with two holding values or two swap values;
-- and how many records the margins publish exactly, as no other record has the same values. Where a stratum has one swap
-- value or one holding value, its margins determine its records with all their values. No match variable has the name
-- count, which has the numbers of each stratum.
WITH
{% for name, margin in (("held", holding), ("swapped", swapping)) %}
{{ name | id }} AS (
    SELECT
        {% if match %}{{ match | ids }}, {% endif %}
        {'records': sum(count), 'combinations': count(*), 'alone': count(*) FILTER (count = 1)} AS count
    FROM {{ margin }}
    GROUP BY ALL
){% if not loop.last %},{% endif %}

{% endfor %}
SELECT
    count(*) AS strata,
    coalesce(max(held.count.records) FILTER (held.count.combinations > 1 OR swapped.count.combinations > 1), 0)::BIGINT AS largest,
    coalesce(sum(held.count.records), 0)::BIGINT AS records,
    coalesce(sum(held.count.alone), 0)::BIGINT AS holding,
    coalesce(sum(swapped.count.alone), 0)::BIGINT AS swap,
    coalesce(
        sum(CASE WHEN swapped.count.combinations = 1 THEN held.count.alone WHEN held.count.combinations = 1 THEN swapped.count.alone ELSE 0 END),
        0
    )::BIGINT AS whole
FROM held
JOIN swapped ON {{ match | same("held", "swapped") }}
