SELECT level, geoid{% if by_type %}, category{% endif %}, count
FROM {{ invariants }}
WHERE invariant = $invariant
