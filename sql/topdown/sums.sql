-- The sums of the answers in the finest places below the parents from `first` up to but excluding `last`, in the order of
-- their kinds.
SELECT parent, sums
FROM {{ sums }}
WHERE histogram = $histogram AND parent >= $first AND parent < $last
ORDER BY parent, kind
