-- The summary of the errors of one redistricting table.
SELECT level, least, most, mean_absolute_error, bias
FROM {{ summary }}
WHERE table_name = $table
