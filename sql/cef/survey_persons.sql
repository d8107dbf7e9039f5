-- The persons of a synthetic survey, one record each with all waves: in each household first the householder, then the
-- partner, the children, and the others.
{% include "cef/survey_plan.sql" %}
,
numbered_person AS (
    SELECT
        number, household, low_income, last_wave, person_weight, panel_weight, age, origin, youngest, children, persons,
        hispanic, white, black, asian, householder_female,
        position, position - 1 - partners AS child,
        md5_number($seed::VARCHAR || ':person:' || number || ':' || position) AS digest
    FROM (SELECT *, unnest(range(persons)) AS position FROM composed)
),
worded_person AS (
    SELECT
        *,
        (digest & 18446744073709551615)::UBIGINT AS traits,
        (digest >> 64)::UBIGINT AS fortunes
    FROM numbered_person
),
drawn_person AS (
    SELECT
        *,
        {% with word = "traits", names = ["years", "education", "person_origin"] %}{% include "cef/draws.sql" %}{% endwith %}
        ((traits >> 48) & 127) / 128 AS likeness_draw,
        ((traits >> 55) & 255) / 256 AS sex_draw,
        (fortunes & 65535)::BIGINT AS rank,
        ((fortunes >> 16) & 65535)::BIGINT AS employment_draw,
        ((fortunes >> 32) & 65535) / 65536 AS insurance_draw
    FROM worded_person
),
described AS (
    SELECT
        *,
        CASE
            WHEN position = 0 THEN householder_female
            WHEN child = -1 THEN householder_female = (sex_draw < 0.02)
            ELSE sex_draw < 0.5
        END AS female,
        CASE
            WHEN position = 0 THEN age
            WHEN child = -1 THEN greatest(18, least(100, age - 6 + floor(12 * years_draw)::BIGINT))
            -- Each child is up to three years older than the previous one.
            WHEN child < children
                THEN least(age - 15, youngest + 3 * child - CASE child WHEN 0 THEN 0 ELSE floor(3 * years_draw)::BIGINT END)
            ELSE 18 + floor(60 * years_draw * years_draw)::BIGINT
        END AS years,
        CASE
            WHEN position = 0 OR likeness_draw < 0.88 THEN origin
            WHEN person_origin_draw < hispanic THEN 'hispanic'
            WHEN person_origin_draw < white THEN 'white'
            WHEN person_origin_draw < black THEN 'black'
            WHEN person_origin_draw < asian THEN 'asian'
            ELSE 'other'
        END AS person_origin,
        CASE
            WHEN years < 15 THEN 'under_15'
            WHEN years < 18 THEN 'less_than_high_school'
            WHEN education_draw < CASE WHEN low_income THEN 0.18 ELSE 0.08 END THEN 'less_than_high_school'
            WHEN education_draw < CASE WHEN low_income THEN 0.52 ELSE 0.34 END THEN 'high_school'
            WHEN years < 23 OR education_draw < CASE WHEN low_income THEN 0.80 ELSE 0.60 END THEN 'some_college'
            WHEN years < 26 OR education_draw < CASE WHEN low_income THEN 0.94 ELSE 0.85 END THEN 'bachelor'
            ELSE 'graduate'
        END AS education
    FROM drawn_person
),
-- What does not change from wave to wave: percentages of the employed and the unemployed, what full work would earn in a
-- month, and the income without work. Money is in whole dollars, and all arithmetic with it is exact.
situated AS (
    SELECT
        *,
        CASE
            WHEN years < 20 THEN 28
            WHEN years < 25 THEN 65
            WHEN years < 55 THEN 82
            WHEN years < 65 THEN 63
            WHEN years < 75 THEN 25
            ELSE 8
        END
            + CASE WHEN years < 25 OR years >= 65 THEN 0 ELSE CASE education
                WHEN 'less_than_high_school' THEN -17
                WHEN 'high_school' THEN -5
                WHEN 'some_college' THEN 0
                WHEN 'bachelor' THEN 4
                ELSE 6
            END END
            - CASE WHEN female AND years BETWEEN 25 AND 54 THEN 5 ELSE 0 END
            - CASE WHEN low_income THEN 4 ELSE 0 END AS employed,
        CASE education
            WHEN 'less_than_high_school' THEN 62
            WHEN 'high_school' THEN 78
            WHEN 'some_college' THEN 88
            WHEN 'bachelor' THEN 128
            ELSE 160
        END AS by_education,
        CASE
            WHEN years < 20 THEN 35
            WHEN years < 25 THEN 60
            WHEN years < 35 THEN 90
            WHEN years < 55 THEN 110
            WHEN years < 65 THEN 105
            ELSE 70
        END AS by_age,
        -- Monthly earnings that divide the employed into sixteenths. The last sixteenth is skewed.
        [150, 700, 1200, 1600, 2000, 2350, 2700, 3050, 3450, 3900, 4400, 5000, 5700, 6700, 8200, 11500, 45000]::BIGINT[]
            AS earnings,
        rank >> 12 AS sixteenth,
        rank & 4095 AS within
    FROM described
),
able AS (
    SELECT
        *,
        employed // 20 + CASE WHEN low_income THEN 2 ELSE 1 END AS unemployed,
        (
            earnings[sixteenth + 1]
                + (earnings[sixteenth + 2] - earnings[sixteenth + 1])
                    * within * CASE sixteenth WHEN 15 THEN within ELSE 4096 END // 16777216
        ) * by_education * by_age // 10000
            * CASE WHEN low_income THEN 80 ELSE 106 END * CASE WHEN female THEN 85 ELSE 100 END // 10000 AS earned,
        CASE WHEN rank < 26214 THEN 0 ELSE 400 + rank * 1400 // 65536 END AS benefits,
        CASE
            WHEN years >= 62 THEN 700 + rank * 4300 // 65536 * by_education // 100
            WHEN rank < 39321 THEN 0
            ELSE (rank - 39321) * 1200 // 26214
        END AS transfers,
        -- A digest is two words of 64 bits: the draws of two waves.
        {% for wave in range(1, waves + 1, 2) %}
        md5_number($seed::VARCHAR || ':wave:' || number || ':' || position || ':' || {{ wave }})
            AS digest_{{ wave }},
        {% endfor %}
    FROM situated
),
-- Employment is a Markov chain: 0 employed, 1 unemployed, 2 neither. From wave to wave, 7% of those in 0 and 2 and half
-- of those in 1 draw again, with shares under which the distribution stays that of the first wave.
weighed AS (
    SELECT
        *,
        7 * employed AS to_employed,
        50 * unemployed AS to_unemployed,
        7 * employed + 50 * unemployed + 7 * (100 - employed - unemployed) AS to_any,
        {% for wave in range(1, waves + 1, 2) %}
        (digest_{{ wave }} & 18446744073709551615)::UBIGINT AS word_{{ wave }},
        (digest_{{ wave }} >> 64)::UBIGINT AS word_{{ wave + 1 }},
        {% endfor %}
    FROM able
),
wave_1 AS (
    SELECT
        *,
        CASE
            WHEN employment_draw * 100 < employed * 65536 THEN 0
            WHEN employment_draw * 100 < (employed + unemployed) * 65536 THEN 1
            ELSE 2
        END AS status_1
    FROM weighed
),
{% for wave in range(2, waves + 1) %}
wave_{{ wave }} AS (
    SELECT
        *,
        CASE
            WHEN (word_{{ wave }} & 65535) * 100 >= CASE status_{{ wave - 1 }} WHEN 1 THEN 50 ELSE 7 END * 65536
                THEN status_{{ wave - 1 }}
            WHEN ((word_{{ wave }} >> 16) & 65535) * to_any < to_employed * 65536 THEN 0
            WHEN ((word_{{ wave }} >> 16) & 65535) * to_any < (to_employed + to_unemployed) * 65536 THEN 1
            ELSE 2
        END AS status_{{ wave }}
    FROM wave_{{ wave - 1 }}
),
{% endfor %}
-- Incomes vary by up to a tenth around what the person earns, and grow by 1% from wave to wave.
paid AS (
    SELECT
        *,
        {% for wave in range(1, waves + 1) %}
        CASE
            WHEN years < 15 THEN 0
            ELSE least({{ largest_income }}, CASE status_{{ wave }}
                WHEN 0 THEN CASE WHEN years >= 66 THEN transfers ELSE 0 END
                    + earned * (9000 + 2000 * ((word_{{ wave }} >> 32) & 65535)::BIGINT // 65536) // 10000
                        * {{ 99 + wave }} // 100
                WHEN 1 THEN benefits
                ELSE transfers
            END)
        END AS paid_{{ wave }},
        {% endfor %}
    FROM wave_{{ waves }}
),
-- Of whom a share has private insurance, and a share any: by age and stratum, employment and income.
insurable AS (
    SELECT
        *,
        [0.06, 0.36, 0.70, 0.88, 0.58, 0.30, 0.42]::DOUBLE[] AS private,
        [0.99, 0.93, 0.96, 0.92, 0.78, 0.72, 0.88]::DOUBLE[] AS insured,
        {% for wave in range(1, waves + 1) %}
        CASE
            WHEN years >= 65 THEN 1
            WHEN years < 15 THEN CASE WHEN low_income THEN 2 ELSE 3 END
            ELSE CASE status_{{ wave }}
                WHEN 0 THEN CASE WHEN paid_{{ wave }} >= 3000 THEN 4 ELSE 5 END
                WHEN 1 THEN 6
                ELSE 7
            END
        END AS situation_{{ wave }},
        {% endfor %}
    FROM paid
),
-- What the survey has asked: nothing of a household after its last wave.
person AS (
    SELECT
        household * 100 + position + 1 AS person,
        household,
        CASE WHEN female THEN 'female' ELSE 'male' END AS sex,
        years AS age,
        person_origin AS race_hispanic,
        education,
        person_weight,
        CASE last_wave WHEN {{ waves }} THEN panel_weight ELSE 0 END AS panel_weight,
        {% for wave in range(1, waves + 1) %}
        CASE
            WHEN last_wave < {{ wave }} THEN 'not_interviewed'
            WHEN years < 15 THEN 'under_15'
            ELSE CASE status_{{ wave }} WHEN 0 THEN 'employed' WHEN 1 THEN 'unemployed' ELSE 'not_in_labor_force' END
        END AS employment_{{ wave }},
        CASE
            WHEN last_wave < {{ wave }} THEN 'not_interviewed'
            WHEN insurance_draw < private[situation_{{ wave }}] THEN 'private'
            WHEN insurance_draw < insured[situation_{{ wave }}] THEN 'public'
            ELSE 'none'
        END AS health_insurance_{{ wave }},
        CASE WHEN last_wave < {{ wave }} THEN 0 ELSE paid_{{ wave }} END AS income_{{ wave }},
        {% endfor %}
    FROM insurable
)
SELECT {{ columns | ids }} FROM person
