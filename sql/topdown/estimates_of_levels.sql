-- The estimates of some levels, as they are stored. Without a condition, by which forged statistics could hide rows.
{% for depth, estimates in levels %}
SELECT
    {{ depth }}::BIGINT AS depth,
    histogram::VARCHAR AS histogram,
    number::BIGINT AS number,
    cell::BIGINT AS cell,
    count::BIGINT AS count
FROM {{ estimates }}
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
