{# The households of a census by the attributes of the DHC's histogram of households, with the columns `carried` of their
   units. Three generations are a child of the householder with a grandchild or a parent. A household of none of the types
   has no `hhtype_dhch`; the age of a householder under 15 is -1. A statement, or a subquery of others. #}
SELECT
    {{ carried | ids("household") }},
    household.sex,
    len(list_filter([15, 25, 35, 45, 55, 60, 65, 75, 85], lambda first: first <= householder_age)) - 1 AS hhage,
    household.hisp,
    household.race,
    len(list_filter([60, 65, 75], lambda first: first <= oldest)) AS elderly,
    household.hhtenshort_3lev,
    type.code AS hhtype_dhch
FROM (
    SELECT
        {{ carried | ids("unit") }},
        TRY_CAST(unit.HHSPAN AS BIGINT) - 1 AS hisp,
        least(TRY_CAST(unit.HHRACE AS BIGINT), 7) - 1 AS race,
        least(TRY_CAST(unit.TEN AS BIGINT), 3) - 1 AS hhtenshort_3lev,
        least(unit.FINAL_POP, {{ largest }}) AS size,
        members.* EXCLUDE (MAFID)
    FROM {{ units }} AS unit
    JOIN (
        SELECT
            MAFID,
            max(TRY_CAST(QSEX AS BIGINT) - 1) FILTER (WHERE RELSHIP = '20') AS sex,
            max(QAGE) FILTER (WHERE RELSHIP = '20') AS householder_age,
            max(QAGE) AS oldest,
            max(CASE RELSHIP WHEN '21' THEN 1 WHEN '23' THEN 2 WHEN '22' THEN 3 WHEN '24' THEN 4 ELSE 0 END) AS couple,
            bool_or(RELSHIP IN ('21', '23') OR RELSHIP BETWEEN '25' AND '33') AS relatives,
            bool_or(RELSHIP BETWEEN '25' AND '27') AND bool_or(RELSHIP BETWEEN '29' AND '31') AS multigenerational,
            bool_or(RELSHIP BETWEEN '25' AND '27' AND QAGE < 6)::BIGINT
                + 2 * bool_or(RELSHIP BETWEEN '25' AND '27' AND QAGE BETWEEN 6 AND 17)::BIGINT AS own,
            bool_or(RELSHIP NOT BETWEEN '20' AND '24' AND QAGE < 6)::BIGINT
                + 2 * bool_or(RELSHIP NOT BETWEEN '20' AND '24' AND QAGE BETWEEN 6 AND 17)::BIGINT AS others,
            bool_or(QAGE < 18) AS minors
        FROM {{ persons }}
        GROUP BY MAFID
    ) AS members ON members.MAFID = unit.MAFID
    WHERE unit.RTYPE = '2'
) AS household
LEFT JOIN {{ types }} AS type USING (size, multigenerational, couple, relatives, own, others, minors)
