{# The units of a census by the attribute of the DHC's histogram of units, with the columns `carried`. Group quarters in
   which nobody lives are none. A statement, or a subquery of others. #}
SELECT
    {{ carried | ids("unit") }},
    CASE
        WHEN RTYPE = '4' THEN quarters.code - 7
        WHEN TEN <> '0' THEN TRY_CAST(TEN AS BIGINT) - 1
        ELSE TRY_CAST(VACS AS BIGINT) + 3
    END AS tenvacgq
FROM {{ units }} AS unit
LEFT JOIN {{ quarters }} AS quarters ON quarters.type = unit.GQTYPE3
WHERE RTYPE = '2' OR FINAL_POP > 0
