-- The counts of the places from `first` up to but excluding `last`, in the order of places.
SELECT number, cell, count FROM {{ counts }} WHERE number >= $first AND number < $last ORDER BY number
