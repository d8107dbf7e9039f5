-- The counts of one invariant at its level.
SELECT number, category, count
FROM {{ invariants }}
WHERE invariant = $invariant AND level = $level
ORDER BY number, category
