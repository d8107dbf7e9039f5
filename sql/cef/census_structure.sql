-- The number of offenders of each rule of the census layout, in one row. Rules about GQTYPE are included only if `rules`
-- contains them, and so are those about sex, detailed codes and the DHC. Recoded columns may have any name, and are not
-- read. Values that are NULL are left to the rule against NULLs, ages outside 0 to 115 and relationships outside 20 to 38
-- to the rule against these.
{% set typed, sexed = "group_quarters_type" in rules, "householder_sex" in rules %}
{% set detailed, dhc = "race_code_3" in rules, "possible_type" in rules %}
WITH
members AS (
    SELECT
        MAFID,
        count(*) AS persons,
        count(*) FILTER (WHERE PERSON_RTYPE = '3') AS housed,
        count(*) FILTER (WHERE PERSON_RTYPE = '5') AS quartered,
        count(*) FILTER (WHERE RELSHIP IN ('37', '38')) AS residents,
        count(*) FILTER (WHERE RELSHIP BETWEEN '20' AND '36') AS related,
        count(*) FILTER (WHERE RELSHIP = '20') AS householders,
        count(*) FILTER (WHERE RELSHIP IN ('21', '23')) AS spouses,
        count(*) FILTER (WHERE RELSHIP IN ('22', '24')) AS partners,
        count(*) FILTER (WHERE RELSHIP BETWEEN '25' AND '33') AS relatives,
        count(*) FILTER (WHERE RELSHIP BETWEEN '25' AND '27' AND QAGE < 18) AS own_children,
        {% if typed %}
        count(*) FILTER (WHERE RELSHIP = '37') AS institutional,
        count(*) FILTER (WHERE RELSHIP = '38') AS noninstitutional,
        count(*) FILTER (WHERE QAGE BETWEEN 0 AND 17) AS minors,
        {% endif %}
        {% if sexed %}
        max(QSEX) FILTER (WHERE RELSHIP = '20') AS householder_sex,
        max(QSEX) FILTER (WHERE RELSHIP BETWEEN '21' AND '24') AS partner_sex,
        {% endif %}
        bool_and(coalesce(QAGE BETWEEN 0 AND 115, false)) AS aged,
        bool_and(coalesce(regexp_full_match(RELSHIP, '2[0-9]|3[0-8]'), false)) AS known,
        max(RELSHIP) FILTER (WHERE RELSHIP BETWEEN '21' AND '24') AS couple,
        max(CENHISP) FILTER (WHERE RELSHIP = '20') AS householder_hispanic,
        max(CENRACE) FILTER (WHERE RELSHIP = '20') AS householder_race
    FROM {{ persons }}
    GROUP BY MAFID
),
households AS (
    SELECT
        unit.*,
        members.* EXCLUDE (MAFID, persons, householders),
        coalesce(persons, 0) AS persons,
        coalesce(householders, 0) AS householders,
        RTYPE = '2' AND FINAL_POP > 0 AS occupied,
        coalesce(known AND members.householders = 1 AND spouses + partners <= 1, false) AS defined
    FROM (
        SELECT
            MAFID, RTYPE, FINAL_POP, NPF, HHSPAN, HHRACE, TEN, HHT, HHT2, CPLT, TABBLK, TABBLKGRPCE
            {% if typed %}, GQTYPE{% endif %}{% if dhc %}, GQTYPE3, VACS{% endif %}

        FROM {{ units }}
    ) AS unit
    LEFT JOIN members ON members.MAFID = unit.MAFID
),
offenders AS (
    SELECT
        coalesce(sum(CASE RTYPE WHEN '2' THEN quartered WHEN '4' THEN housed END), 0)::BIGINT AS persons_housed,
        coalesce(sum(CASE RTYPE WHEN '2' THEN residents WHEN '4' THEN related END), 0)::BIGINT AS relationships_housed,
        count(*) FILTER (WHERE FINAL_POP <> persons) AS population,
        count(*) FILTER (
            WHERE RTYPE = '2' AND (occupied OR persons > 0) AND householders <> 1
                AND (householders > 1 OR coalesce(known, true))
        ) AS householder,
        count(*) FILTER (WHERE RTYPE = '2' AND spouses + partners > 1) AS couple,
        count(*) FILTER (WHERE NOT CASE
            WHEN NOT occupied THEN NPF = 0
            WHEN NOT defined THEN true
            WHEN spouses + relatives > 0 THEN NPF = 1 + spouses + relatives
            ELSE NPF = 0
        END) AS family,
        count(*) FILTER (WHERE NOT CASE
            WHEN NOT occupied THEN HHSPAN = '0'
            WHEN NOT defined THEN HHSPAN <> '0'
            ELSE HHSPAN = householder_hispanic
        END) AS hispanic,
        count(*) FILTER (WHERE NOT CASE
            WHEN NOT occupied THEN HHRACE = '00'
            WHEN NOT defined THEN HHRACE <> '00'
            ELSE HHRACE = householder_race
        END) AS race,
        count(*) FILTER (WHERE occupied = (TEN = '0')) AS tenure,
        count(*) FILTER (WHERE NOT CASE
            WHEN NOT occupied THEN HHT = '0'
            WHEN NOT defined THEN HHT <> '0'
            WHEN spouses > 0 THEN HHT = '1'
            WHEN relatives > 0 THEN HHT IN ('2', '3')
            WHEN persons = 1 THEN HHT IN ('4', '6')
            ELSE HHT IN ('5', '7')
        END) AS household_type,
        count(*) FILTER (WHERE NOT CASE
            WHEN NOT occupied THEN HHT2 = '00'
            WHEN NOT defined OR NOT aged THEN HHT2 <> '00'
            WHEN spouses > 0 THEN HHT2 = CASE WHEN own_children > 0 THEN '01' ELSE '02' END
            WHEN partners > 0 THEN HHT2 = CASE WHEN own_children > 0 THEN '03' ELSE '04' END
            WHEN own_children > 0 THEN HHT2 IN ('06', '10')
            WHEN relatives > 0 THEN HHT2 IN ('07', '11')
            WHEN persons = 1 THEN HHT2 IN ('05', '09')
            ELSE HHT2 IN ('08', '12')
        END) AS household_type_2,
        count(*) FILTER (WHERE NOT CASE
            WHEN NOT occupied THEN CPLT = '0'
            WHEN NOT defined THEN CPLT <> '0'
            ELSE CPLT = CASE couple WHEN '21' THEN '1' WHEN '23' THEN '2' WHEN '22' THEN '3' WHEN '24' THEN '4' ELSE '5' END
        END) AS couple_type,
        count(*) FILTER (
            WHERE HHT IN ('2', '4', '5') AND HHT2 BETWEEN '05' AND '08'
                OR HHT IN ('3', '6', '7') AND HHT2 BETWEEN '09' AND '12'
        ) AS sex,
        count(*) FILTER (WHERE TABBLKGRPCE <> left(TABBLK, 1)) AS block_group,
        {% if "divided_block" in rules %}{% include "cef/divided_blocks.sql" %}{% else %}0{% endif %} AS divided_block{% if typed %},
        count(*) FILTER (WHERE (RTYPE = '2') <> (GQTYPE = '0')) AS group_quarters_type,
        coalesce(sum(
            CASE WHEN GQTYPE BETWEEN '1' AND '4' THEN noninstitutional WHEN GQTYPE BETWEEN '5' AND '7' THEN institutional END
        ), 0)::BIGINT AS institution,
        coalesce(sum(minors) FILTER (WHERE GQTYPE = '3'), 0)::BIGINT AS nursing_age{% endif %}{% if sexed %},
        count(*) FILTER (
            WHERE defined AND (
                householder_sex = '2' AND (HHT IN ('2', '4', '5') OR HHT2 BETWEEN '09' AND '12')
                OR householder_sex = '1' AND (HHT IN ('3', '6', '7') OR HHT2 BETWEEN '05' AND '08')
            )
        ) AS householder_sex{% endif %}{% if dhc %},
        count(*) FILTER (
            WHERE GQTYPE <> coalesce(
                (SELECT major FROM {{ quarters }} AS quarters WHERE quarters.type = GQTYPE3), left(GQTYPE3, 1)
            )
        ) AS quarters_level,
        count(*) FILTER (WHERE (RTYPE = '2' AND FINAL_POP = 0) = (VACS = '0')) AS vacancy,
        count(*) FILTER (WHERE defined AND (couple IN ('21', '22')) = (partner_sex = householder_sex)) AS couple_sex{% endif %}

    FROM households
)
SELECT *
FROM offenders
{% if dhc %}
CROSS JOIN (
    SELECT count(*) AS possible_age
    FROM ({% include "dhc/persons.sql" %}) JOIN {{ impossible_persons }} USING (relgq, age)
)
CROSS JOIN (
    SELECT
        count(*) FILTER (WHERE hhtype_dhch IS NULL) AS possible_type,
        count(*) FILTER (WHERE hhage >= 0 AND impossible.sex IS NOT NULL) AS possible_household
    FROM ({% include "dhc/households.sql" %}) AS household
    SEMI JOIN (SELECT MAFID FROM households WHERE defined AND aged) AS sound USING (MAFID)
    LEFT JOIN {{ impossible_households }} AS impossible USING (sex, hhage, elderly, hhtype_dhch)
)
{% endif %}
{% if detailed %}
CROSS JOIN (SELECT {% with prefix = "" %}{% include "cef/race_codes_after_null.sql" %}{% endwith %} FROM {{ persons }})
{% endif %}
