-- The counts of some places, those from the first up to the last and without it.
SELECT number - $first AS number, cell, count FROM {{ counts }} WHERE number >= $first AND number < $last
