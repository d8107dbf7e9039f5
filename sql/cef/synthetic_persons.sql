-- The persons of a synthetic census in the production layout: in each household first the householder, then the spouse
-- or partner, the children, the other relatives, and the nonrelatives.
{% include "cef/synthetic_plan.sql" %}
,
numbered_person AS (
    SELECT
        mafid, kind, form, couple, age, children, youngest, relatives, quarters, mixture,
        is_hispanic, race, is_other_hispanic, other_race, combination,
        {% if detailed or dhc %}
        male,
        {% endif %}
        {% if detailed %}
        household_word, county_word, state_word,
        {% endif %}
        {% if dhc %}
        GQTYPE3,
        {% endif %}
        number, position,
        position - 1 - partners AS child,
        position - 1 - partners - children AS relative,
        md5_number(concat_ws(':', $seed, 'person', number, position)) AS digest
    FROM (SELECT *, unnest(range(persons)) AS position FROM composed)
),
drawn_person AS (
    SELECT
        *,
        (digest & 18446744073709551615)::UBIGINT AS draw,
        {% with word = "draw", names = ["years", "relation", "likeness", "more_years"] %}{% include "cef/draws.sql" %}{% endwith %}
        {% if detailed or dhc %}
        (digest >> 64)::UBIGINT AS detail,
        (detail & 2147483647)::BIGINT AS own_word,
        ((detail >> 31) & 65535) / 65536 AS sex_draw,
        (detail >> 47) / 131072 AS unlike_draw
        {% endif %}
    FROM numbered_person
),
related AS (
    SELECT
        *,
        CASE
            WHEN kind = 'quarters'
                THEN CASE WHEN quarters IN ('correctional', 'juvenile', 'nursing', 'institutional') THEN 37 ELSE 38 END
            WHEN position = 0 THEN 20
            WHEN child < 0 THEN couple
            WHEN relative < 0 THEN CASE WHEN relation_draw < 0.93 THEN 25 WHEN relation_draw < 0.955 THEN 26 ELSE 27 END
            WHEN relative < relatives AND age >= 50 THEN CASE
                WHEN relation_draw < 0.50 THEN 30
                WHEN relation_draw < 0.60 THEN 28
                WHEN relation_draw < 0.72 THEN 32
                WHEN relation_draw < 0.85 AND relative < 2 AND age < 75 THEN 29
                ELSE 33
            END
            WHEN relative < relatives THEN CASE
                WHEN relation_draw < 0.35 AND relative < 2 AND age >= 25 THEN 29
                WHEN relation_draw < 0.50 AND relative < 2 AND form = 'married' THEN 31
                WHEN relation_draw < 0.75 THEN 28
                ELSE 33
            END
            WHEN relation_draw < 0.80 THEN 34
            WHEN relation_draw < 0.85 THEN 35
            ELSE 36
        END AS relationship
    FROM drawn_person
),
aged AS (
    SELECT
        *,
        {% if dhc %}
        CASE GQTYPE3
            -- Types whose residents are of other ages than those of the other types of their first digit.
            WHEN '106' THEN 18 + 30 * years_draw * more_years_draw
            WHEN '404' THEN 18 + 40 * years_draw
            WHEN '405' THEN 3 + 18 * years_draw
            WHEN '801' THEN 18 + 60 * years_draw
            WHEN '802' THEN 18 + 45 * years_draw
            WHEN '900' THEN 18 + 50 * years_draw
            WHEN '901' THEN 16 + 45 * years_draw * more_years_draw
        END AS resident_years,
        {% endif %}
        CASE relationship
            WHEN 20 THEN age
            WHEN 28 THEN greatest(1, age - 8 + 16 * years_draw)
            WHEN 29 THEN least(108, age + 18 + 18 * years_draw)
            WHEN 30 THEN least(30, age - 38) * years_draw
            WHEN 31 THEN least(108, age + 18 + 18 * years_draw)
            WHEN 32 THEN greatest(18, age - 32 + 10 * years_draw)
            WHEN 33 THEN 85 * years_draw
            WHEN 34 THEN 18 + 50 * years_draw * more_years_draw
            WHEN 35 THEN 18 * years_draw
            WHEN 36 THEN 18 + 55 * years_draw
            WHEN 37 THEN CASE quarters
                WHEN 'correctional' THEN 18 + 50 * years_draw * more_years_draw
                WHEN 'juvenile' THEN 8 + 10 * years_draw
                WHEN 'nursing' THEN 55 + 46 * (1 - years_draw * more_years_draw)
                WHEN 'institutional' THEN 18 + 80 * years_draw
            END
            WHEN 38 THEN CASE quarters
                WHEN 'college' THEN 18 + 6 * years_draw
                WHEN 'military' THEN 18 + 23 * years_draw
                WHEN 'noninstitutional' THEN 90 * years_draw
            END
            -- Spouses and partners are of similar age. Each child is up to three years older than the previous one.
            ELSE CASE
                WHEN relationship IN (21, 22, 23, 24) THEN greatest(18, age - 6 + 6 * years_draw + 6 * more_years_draw)
                ELSE least(age - 15, youngest + 3 * child - CASE child WHEN 0 THEN 0 ELSE floor(3 * years_draw) END)
            END
        END AS years,
        -- Whether the person has the race and ethnicity of the householder (0) or of the second person of the tract (1),
        -- or is of two or more races (2).
        CASE
            WHEN kind = 'quarters' OR relationship = 20 THEN 0
            WHEN likeness_draw < CASE WHEN child < 0 THEN 0.85 WHEN relative < relatives THEN 0.92 ELSE 0.55 END THEN 0
            WHEN child < 0 OR relative >= relatives OR likeness_draw < 0.96 THEN 1
            ELSE 2
        END AS likeness
    FROM related
),
person AS (
    SELECT
        mafid AS MAFID,
        CASE kind WHEN 'quarters' THEN '5' ELSE '3' END AS PERSON_RTYPE,
        floor({% if dhc %}coalesce(resident_years, years){% else %}years{% endif %})::BIGINT AS QAGE,
        CASE
            WHEN kind = 'quarters' THEN relation_draw < hispanic
            WHEN likeness = 1 THEN is_other_hispanic
            ELSE is_hispanic
        END AS is_person_hispanic,
        CASE WHEN is_person_hispanic THEN '2' ELSE '1' END AS CENHISP,
        CASE
            WHEN kind = 'quarters' THEN CASE
                WHEN likeness_draw < white THEN 1
                WHEN likeness_draw < black THEN 2
                WHEN likeness_draw < aian THEN 3
                WHEN likeness_draw < asian THEN 4
                WHEN likeness_draw < nhpi THEN 5
                WHEN likeness_draw < other THEN 6
                ELSE combination
            END
            WHEN likeness = 1 THEN other_race
            WHEN likeness = 2 THEN combination
            ELSE race
        END AS person_race,
        lpad(person_race::VARCHAR, 2, '0') AS CENRACE,
        relationship::VARCHAR AS RELSHIP{% if detailed or dhc %},
        CASE
            WHEN relationship = 20 THEN male
            WHEN relationship IN (21, 22) THEN NOT male
            WHEN relationship IN (23, 24) THEN male
            WHEN kind = 'quarters' THEN sex_draw < CASE quarters
                WHEN 'correctional' THEN 0.90
                WHEN 'juvenile' THEN 0.85
                WHEN 'nursing' THEN 0.36
                WHEN 'military' THEN 0.80
                ELSE 0.50
            END
            WHEN relationship IN (29, 31) THEN sex_draw < 0.35
            ELSE sex_draw < 0.51
        END AS is_male,
        CASE WHEN is_male THEN '1' ELSE '2' END AS QSEX{% endif %}{% if detailed %},
        kind, likeness, unlike_draw, own_word, household_word, county_word, state_word{% endif %}

    FROM aged
    JOIN mixture USING (mixture)
)
{% if detailed %}
{% include "cef/synthetic_codes.sql" %}
SELECT {{ columns | ids }} FROM coded
{% else %}
SELECT {{ columns | ids }} FROM person
{% endif %}
