-- The counts of one invariant in the places from `first` up to but excluding `last` of its level.
SELECT number, category, count
FROM {{ invariants }}
WHERE invariant = $invariant AND level = $level AND number >= $first AND number < $last
ORDER BY number, category
