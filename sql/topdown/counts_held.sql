-- The number of counts of one invariant at its level.
SELECT count(*) FROM {{ invariants }} WHERE invariant = $invariant AND level = $level
