-- The measured groups in the order of the draw, with the number of thresholds that their published totals reach.
SELECT
    (row_number() OVER (ORDER BY universes.place, totals."REGION_ID", totals."ITERATION_CODE") - 1)::BIGINT AS number,
    universes.region_type,
    universes.level::UTINYINT AS level,
    totals."REGION_ID" AS region_id,
    totals."ITERATION_CODE" AS iteration_code,
    totals."COUNT"::BIGINT AS total,
    len(list_filter(universes.t3, lambda least: least <= totals."COUNT"))::TINYINT AS t3,
    len(list_filter(universes.t4, lambda least: least <= totals."COUNT"))::TINYINT AS t4
FROM {{ totals }} AS totals
JOIN {{ universes }} AS universes
    ON universes.region_type = totals."REGION_TYPE" AND universes.iteration_code = totals."ITERATION_CODE"
{% if regions %}
JOIN {{ regions }} AS regions
    ON regions.region_type = totals."REGION_TYPE" AND regions.region_id = totals."REGION_ID"
{% endif %}
ORDER BY number
