{% include "cef/synthetic_plan.sql" %}
,
described AS (
    SELECT
        *,
        kind = 'household' AS occupied,
        form = 'married' OR children + relatives > 0 AS family,
        children > 0 AND youngest < 18 AS own_children
    FROM composed
),
unit AS (
    SELECT
        mafid AS MAFID,
        CASE kind WHEN 'quarters' THEN '4' ELSE '2' END AS RTYPE,
        persons AS FINAL_POP,
        CASE WHEN occupied AND family THEN 1 + (form = 'married')::BIGINT + children + relatives ELSE 0 END AS NPF,
        CASE WHEN NOT occupied THEN '0' WHEN is_hispanic THEN '2' ELSE '1' END AS HHSPAN,
        CASE WHEN occupied THEN lpad(race::VARCHAR, 2, '0') ELSE '00' END AS HHRACE,
        CASE
            WHEN NOT occupied THEN '0'
            WHEN tenure_draw < CASE WHEN age < 35 THEN 0.55 WHEN age < 65 THEN 0.33 ELSE 0.20 END THEN '3'
            WHEN tenure_draw < CASE WHEN age < 35 THEN 0.57 WHEN age < 65 THEN 0.35 ELSE 0.22 END THEN '4'
            WHEN tenure_draw < CASE WHEN age < 35 THEN 0.94 WHEN age < 65 THEN 0.83 ELSE 0.50 END THEN '1'
            ELSE '2'
        END AS TEN,
        CASE
            WHEN NOT occupied THEN '0'
            WHEN form = 'married' THEN '1'
            WHEN family THEN CASE WHEN male THEN '2' ELSE '3' END
            WHEN persons = 1 THEN CASE WHEN male THEN '4' ELSE '6' END
            ELSE CASE WHEN male THEN '5' ELSE '7' END
        END AS HHT,
        CASE
            WHEN NOT occupied THEN '00'
            WHEN form = 'married' THEN CASE WHEN own_children THEN '01' ELSE '02' END
            WHEN form = 'cohabiting' THEN CASE WHEN own_children THEN '03' ELSE '04' END
            WHEN own_children THEN CASE WHEN male THEN '10' ELSE '06' END
            WHEN family THEN CASE WHEN male THEN '11' ELSE '07' END
            WHEN persons = 1 THEN CASE WHEN male THEN '09' ELSE '05' END
            ELSE CASE WHEN male THEN '12' ELSE '08' END
        END AS HHT2,
        CASE
            WHEN NOT occupied THEN '0'
            ELSE CASE couple WHEN 21 THEN '1' WHEN 23 THEN '2' WHEN 22 THEN '3' WHEN 24 THEN '4' ELSE '5' END
        END AS CPLT,
        CASE WHEN kind <> 'quarters' THEN '0' ELSE CASE quarters
            WHEN 'correctional' THEN '1'
            WHEN 'juvenile' THEN '2'
            WHEN 'nursing' THEN '3'
            WHEN 'institutional' THEN '4'
            WHEN 'college' THEN '5'
            WHEN 'military' THEN '6'
            WHEN 'noninstitutional' THEN '7'
        END END AS GQTYPE,
        {% if dhc %}
        GQTYPE3,
        CASE WHEN kind = 'vacant' THEN CASE
            WHEN tenure_draw < 0.22 THEN '1'
            WHEN tenure_draw < 0.25 THEN '2'
            WHEN tenure_draw < 0.33 THEN '3'
            WHEN tenure_draw < 0.37 THEN '4'
            WHEN tenure_draw < 0.69 THEN '5'
            WHEN tenure_draw < 0.71 THEN '6'
            ELSE '7'
        END ELSE '0' END AS VACS,
        {% endif %}
        TABBLKST,
        TABBLKCOU,
        TABTRACTCE,
        (block_group % 3 + 1)::VARCHAR AS TABBLKGRPCE,
        -- Block groups have 25 blocks of unequal size.
        (1000 * (block_group % 3 + 1) + floor(25 * block_draw * block_draw))::BIGINT::VARCHAR AS TABBLK,
        REGIONCE,
        DIVISIONCE,
        PLACEFP,
        {% if detailed %}
        -- Every state but Puerto Rico has areas. Some of them are shared by two states that are declared one after the other.
        CASE
            WHEN fips = 72 OR NOT (mixture = 5 OR tract % 12 = 0) THEN '9999'
            WHEN tract // 12 % 2 = 0 THEN (8000 + 70 * (state // 2) + county // 5 % 70)::VARCHAR
            ELSE lpad((100 * fips + county // 5)::VARCHAR, 4, '0')
        END AS AIANNHCE
        {% else %}
        CASE mixture WHEN 5 THEN lpad((county + 1)::VARCHAR, 4, '0') ELSE '9999' END AS AIANNHCE
        {% endif %}
    FROM described
)
SELECT {{ columns | ids }} FROM unit
