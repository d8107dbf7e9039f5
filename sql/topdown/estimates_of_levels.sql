-- The estimates of a histogram at some levels. Those of cells that do not exist are left out; a gate finds them.
{% for depth, estimates in levels %}
SELECT {{ depth }}::BIGINT AS depth, number::BIGINT AS number, cell::BIGINT AS cell, count::BIGINT AS count
FROM {{ estimates }}
WHERE histogram = $histogram AND cell >= 0 AND cell < $cells AND count IS NOT NULL
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
