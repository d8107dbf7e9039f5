-- The number of rows in which one of the text columns, if there are any, begins with a sign of a formula and is no number.
SELECT count(*)
FROM {{ table }}
WHERE len(list_filter(
    [{{ columns | ids }}]::VARCHAR[],
    lambda cell: list_contains($signs, cell[1]) AND NOT regexp_full_match(cell, $number)
)) > 0
