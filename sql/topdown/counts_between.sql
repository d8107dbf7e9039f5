-- The counts of the places from `first` up to but excluding `last`, renumbered from 0.
SELECT number - $first AS number, cell, count FROM {{ counts }} WHERE number >= $first AND number < $last
