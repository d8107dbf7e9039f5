-- The number of records of every place of every level, by cell of their histogram. Empty cells are left out.
SELECT ancestry.depth, ancestry.number, counted.cell, sum(counted.count)::BIGINT AS count
FROM {{ counts }} AS counted
JOIN {{ ancestry }} AS ancestry ON ancestry.finest = counted.number
GROUP BY ancestry.depth, ancestry.number, counted.cell
