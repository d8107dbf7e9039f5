-- A statistic that is published exactly, with a row for every place of its level.
SELECT level, geoid{% if by_type %}, category{% endif %}, count
FROM {{ invariants }}
WHERE invariant = $invariant
