-- The counts of all tables by some or all of the columns.
SELECT {{ columns | ids }}, count(*) AS count FROM {{ table }} GROUP BY CUBE ({{ columns | ids }})
