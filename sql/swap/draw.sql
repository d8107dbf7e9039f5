-- Which draw the release's swapped table is.
SELECT $draw_id AS draw_id, $version AS swapped_version
