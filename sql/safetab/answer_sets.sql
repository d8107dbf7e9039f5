-- The set of members of each combination of codes: the alone iterations that all of its distinct race codes share, the
-- combination iterations that any of them has, and those of the ethnicity code. A member is an iteration in a universe,
-- so that codes are compared within a universe. Combinations that are in no group are left out.
WITH
race_codes AS (
    SELECT answer, code, len(codes) AS codes
    FROM
        (
            SELECT answer, list_distinct(list_filter([{{ races | ids }}], lambda code: code <> 'Null')) AS codes
            FROM {{ answers }}
        ),
        unnest(codes) AS each(code)
)
SELECT answer, list_sort(list(member)) AS members
FROM (
    SELECT answer, member
    FROM race_codes
    JOIN {{ memberships }} USING (code)
    WHERE kind = 'alone'
    GROUP BY answer, codes, member
    HAVING count(*) = codes
    UNION ALL
    SELECT DISTINCT answer, member
    FROM race_codes
    JOIN {{ memberships }} USING (code)
    WHERE kind = 'combination'
    UNION ALL
    SELECT answer, member
    FROM {{ answers }}
    JOIN {{ memberships }} ON code = QSPAN
    WHERE kind = 'ethnicity'
)
GROUP BY answer
