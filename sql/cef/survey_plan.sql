{# The households of a synthetic survey, one row each, with everything that their persons must be consistent with. It
begins a WITH clause, is included in statements, and is never run alone.

Every draw is a slice of an MD5 digest of the seed, a purpose and a number, scaled to [0, 1), and depends on nothing
else. The households of a cell (a stratum of a state) are numbered one after the other. How many of them stay until which
wave is fixed, so the place of a household in its cell determines when it leaves. #}
WITH
cell AS (
    SELECT
        columns('^(cell|fips|first|first_of_state|households_of_state|stride)$')::BIGINT,
        columns('weight$')::DECIMAL(18, 4),
        low_income::BOOLEAN AS low_income,
        stayers::BIGINT[] AS stayers
    FROM (VALUES
        {% for cell in cells %}
        ({{ loop.index0 }}, {{ cell.fips }}, {{ cell.low_income }}, {{ cell.first }}, {{ cell.first_of_state }},
         {{ cell.households_of_state }}, {{ cell.stride }}, {{ cell.design_weight }}, {{ cell.person_weight }},
         {{ cell.panel_weight }},
         [{% for stayers in cell.stayers %}{{ stayers }}{% if not loop.last %}, {% endif %}{% endfor %}]){% if not loop.last %},{% endif %}

        {% endfor %}
    ) AS cell(cell, fips, low_income, first, first_of_state, households_of_state, stride, design_weight, person_weight,
        panel_weight, stayers)
),
-- Cumulative shares of Hispanics, and of those not Hispanic who are White, Black and Asian, by stratum. The rest are of
-- other or several races.
origins AS (
    FROM (VALUES (true, 0.24, 0.67, 0.91, 0.95), (false, 0.14, 0.80, 0.89, 0.96))
        AS origins(low_income, hispanic, white, black, asian)
),
-- A table of numbers is read by all threads, and a range by one.
numbers AS MATERIALIZED (
    SELECT number FROM range({{ households }}) AS numbers(number)
),
numbered AS (
    SELECT
        number,
        CASE
            {% for cell in cells %}
            WHEN number < {{ cell.first + cell.households }} THEN {{ loop.index0 }}
            {% endfor %}
        END AS cell,
        md5_number($seed::VARCHAR || ':household:' || number) AS digest
    FROM numbers
),
-- Words of 64 bits; the draws are slices of them.
worded AS (
    SELECT
        number,
        cell,
        (digest & 18446744073709551615)::UBIGINT AS dwelling,
        (digest >> 64)::UBIGINT AS company
    FROM numbered
),
drawn AS (
    SELECT
        cell.*,
        number,
        fips * 1000000000 + (number - first_of_state) * stride % households_of_state + 1 AS household,
        {% for wave in range(1, waves + 1) %}
        (number - first < stayers[{{ wave }}])::BIGINT{% if not loop.last %} +{% endif %}

        {% endfor %}
        AS last_wave,
        {% with word = "dwelling", names = ["tenure", "form", "age", "origin"] %}{% include "cef/draws.sql" %}{% endwith %}
        {% with word = "company", names = ["parent", "children", "youngest"] %}{% include "cef/draws.sql" %}{% endwith %}
        ((company >> 48) & 32767) / 32768 AS others_draw,
        company >> 63 = 1 AS householder_female
    FROM worded
    JOIN cell USING (cell)
),
placed AS (
    SELECT
        drawn.*,
        hispanic, white, black, asian,
        CASE
            WHEN form_draw < CASE WHEN low_income THEN 0.36 ELSE 0.55 END THEN 'couple'
            WHEN form_draw < CASE WHEN low_income THEN 0.68 ELSE 0.82 END THEN 'alone'
            WHEN form_draw < CASE WHEN low_income THEN 0.84 ELSE 0.88 END THEN 'parent'
            ELSE 'others'
        END AS form,
        -- Ages that divide the householders of each form into sixteenths.
        CASE form
            WHEN 'couple' THEN [21, 26, 30, 34, 37, 40, 43, 47, 50, 54, 57, 61, 65, 69, 74, 81, 95]
            WHEN 'alone' THEN [20, 25, 29, 33, 38, 43, 49, 54, 58, 62, 65, 69, 73, 77, 81, 87, 100]
            WHEN 'parent' THEN [19, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 51, 55]
            ELSE [18, 21, 24, 27, 30, 33, 36, 40, 44, 48, 52, 56, 60, 64, 69, 76, 92]
        END AS ages,
        floor(16 * age_draw)::BIGINT AS sixteenth,
        ages[sixteenth + 1]
            + floor((ages[sixteenth + 2] - ages[sixteenth + 1]) * (16 * age_draw - sixteenth))::BIGINT AS age,
        CASE
            WHEN origin_draw < hispanic THEN 'hispanic'
            WHEN origin_draw < white THEN 'white'
            WHEN origin_draw < black THEN 'black'
            WHEN origin_draw < asian THEN 'asian'
            ELSE 'other'
        END AS origin,
        tenure_draw < CASE
            WHEN age < 35 THEN CASE WHEN low_income THEN 0.20 ELSE 0.48 END
            WHEN age < 65 THEN CASE WHEN low_income THEN 0.42 ELSE 0.76 END
            ELSE CASE WHEN low_income THEN 0.58 ELSE 0.84 END
        END AS owned
    FROM drawn
    JOIN origins USING (low_income)
),
composed AS (
    SELECT
        *,
        (form = 'couple')::BIGINT AS partners,
        CASE
            WHEN parent_draw >= CASE form
                WHEN 'couple' THEN CASE WHEN age < 50 THEN 0.66 ELSE 0.26 END
                WHEN 'parent' THEN 1
                ELSE 0
            END THEN 0
            WHEN form = 'couple' AND age >= 50 THEN CASE WHEN children_draw < 0.75 THEN 1 ELSE 2 END
            WHEN children_draw < 0.42 THEN 1
            WHEN children_draw < 0.78 THEN 2
            WHEN children_draw < 0.92 THEN 3
            WHEN children_draw < 0.98 THEN 4
            ELSE 5 + floor(2 * (children_draw - 0.98) / 0.02)::BIGINT
        END AS children,
        least(30, age - 18) AS eldest_youngest,
        greatest(0, age - 45) AS least_youngest,
        least(eldest_youngest, least_youngest)
            + floor((eldest_youngest - least(eldest_youngest, least_youngest) + 1) * youngest_draw * youngest_draw)::BIGINT
            AS youngest,
        CASE form WHEN 'others' THEN 1 + floor(4 * others_draw * others_draw)::BIGINT ELSE 0 END AS others,
        1 + partners + children + others AS persons
    FROM placed
)
