-- The units that are never swapped.
SELECT * FROM {{ records }} WHERE NOT swappable
