SELECT number, category, count
FROM {{ invariants }}
WHERE invariant = $invariant AND level = $level AND number >= $first AND number < $last
ORDER BY number, category
