{# The persons of a census by the attributes of the DHC's histogram of persons, with the columns `carried` of their
   units. Codes that the layout does not have become NULL. A statement, or a subquery of others. #}
SELECT
    {{ carried | ids("unit") }},
    CASE
        WHEN unit.RTYPE = '4' THEN quarters.code
        WHEN person.RELSHIP <> '20' THEN TRY_CAST(person.RELSHIP AS BIGINT) - 19
        ELSE (unit.FINAL_POP > 1)::BIGINT
    END AS relgq,
    TRY_CAST(person.QSEX AS BIGINT) - 1 AS sex,
    person.QAGE AS age,
    TRY_CAST(person.CENHISP AS BIGINT) - 1 AS hispanic,
    TRY_CAST(person.CENRACE AS BIGINT) - 1 AS cenrace
FROM {{ persons }} AS person
JOIN {{ units }} AS unit ON unit.MAFID = person.MAFID
LEFT JOIN {{ quarters }} AS quarters ON quarters.type = unit.GQTYPE3
