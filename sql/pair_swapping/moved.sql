-- The units after the exchange: every household that has a partner has the partner's place. Units are numbered by content
-- alone: a number says nothing about the order or the keys of the records.
SELECT
    records.{{ key | id }} AS unit_key,
    row_number() OVER (ORDER BY {{ place | ids("places") }}, {{ kept | ids("records") }}, records.composition) AS unit,
    {{ kept | ids("records") }},
    {{ place | ids("places") }}
FROM {{ records }} AS records
LEFT JOIN {{ moves }} AS moves ON records.{{ key | id }} = moves.unit_key
JOIN {{ units }} AS places ON places.{{ key | id }} = coalesce(moves.partner_key, records.{{ key | id }})
