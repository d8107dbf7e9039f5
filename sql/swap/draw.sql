-- Which draw the release's swapped data are.
SELECT $draw_id AS draw_id
