SELECT (row_number() OVER ())::INTEGER AS number, members
FROM (SELECT DISTINCT members FROM {{ answer_sets }})
