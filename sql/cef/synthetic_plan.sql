{# The units of a synthetic census, one row each, with everything that their persons must be consistent with. It begins
a WITH clause, is included in statements, and is never run alone.

Every draw is a slice of an MD5 digest of the seed, a purpose and a number, scaled to [0, 1), and depends on nothing
else. Powers of a draw give distributions with many small values and a few large ones. #}
WITH
state AS (
    SELECT columns(*)::BIGINT
    FROM (VALUES
        {% for state in states %}
        ({{ loop.index0 }}, {{ state.fips }}, {{ state.region }}, {{ state.division }}, {{ state.first }},
         {{ state.households }}, {{ state.vacant }}, {{ state.units }}, {{ state.stride }},
         {{ state.block_groups }}, {{ state.tracts }}, {{ state.counties }}){% if not loop.last %},{% endif %}

        {% endfor %}
    ) AS state(state, fips, region, division, first, households, vacant, units, stride, block_groups, tracts, counties)
),
-- Shares of householders in six kinds of tract: Hispanic; then, among those not Hispanic, cumulatively White, Black,
-- AIAN, Asian, NHPI and Some Other Race alone. The rest are of two or more races.
mixture AS (
    FROM (VALUES
        (0, 0.06, 0.900, 0.930, 0.938, 0.958, 0.959, 0.963),
        (1, 0.20, 0.620, 0.800, 0.808, 0.900, 0.904, 0.912),
        (2, 0.09, 0.220, 0.930, 0.935, 0.950, 0.951, 0.956),
        (3, 0.70, 0.600, 0.730, 0.745, 0.870, 0.874, 0.885),
        (4, 0.12, 0.430, 0.480, 0.484, 0.900, 0.915, 0.920),
        (5, 0.05, 0.330, 0.345, 0.930, 0.940, 0.942, 0.945)
    ) AS mixture(mixture, hispanic, white, black, aian, asian, nhpi, other)
),
tract_number AS (
    -- Squaring gives counties of unequal size, each with consecutive tracts.
    SELECT state, fips, region, division, tract, counties * tract * tract // (tracts * tracts) AS county
    FROM (SELECT state, fips, region, division, tracts, counties, unnest(range(tracts)) AS tract FROM state)
),
tract_draw AS (
    SELECT
        *,
        md5_number_lower(concat_ws(':', $seed, 'state', fips)) AS state_draw,
        md5_number_lower(concat_ws(':', $seed, 'county', fips, county)) AS county_draw,
        md5_number_lower(concat_ws(':', $seed, 'place', fips, tract // 4)) AS place_draw,
        md5_number_lower(concat_ws(':', $seed, 'tract', fips, tract)) AS tract_draw,
        -- The frequency of each kind of tract, in 32nds.
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5] AS kinds
    FROM tract_number
),
-- The codes of places are made for each tract, not for each unit.
tract AS (
    SELECT
        state,
        tract,
        county,
        region::VARCHAR AS REGIONCE,
        division::VARCHAR AS DIVISIONCE,
        lpad(fips::VARCHAR, 2, '0') AS TABBLKST,
        lpad((2 * county + 1)::VARCHAR, 3, '0') AS TABBLKCOU,
        lpad((tract + 1)::VARCHAR, 6, '0') AS TABTRACTCE,
        CASE WHEN place_draw % 100 < 75 THEN lpad((1000 + tract // 4)::VARCHAR, 5, '0') ELSE '99999' END AS PLACEFP,
        -- Tracts tend to resemble their county, and counties their state.
        CASE
            WHEN (tract_draw >> 8) % 100 >= 55 THEN kinds[(1 + tract_draw % 32)::BIGINT]
            WHEN (county_draw >> 8) % 100 >= 30 THEN kinds[(1 + county_draw % 32)::BIGINT]
            ELSE kinds[(1 + state_draw % 32)::BIGINT]
        END AS mixture,
        kinds{% if detailed %},
        -- The word of an area decides which detailed codes are frequent in it.
        ((county_draw >> 32) & 2147483647)::BIGINT AS county_word,
        ((state_draw >> 32) & 2147483647)::BIGINT AS state_word{% endif %}

    FROM tract_draw
),
-- A table of numbers is read by all threads, and a range by one.
numbers AS MATERIALIZED (
    SELECT number FROM range({{ units }}) AS numbers(number)
),
numbered AS (
    SELECT
        number,
        CASE
            {% for state in states %}
            WHEN number < {{ state.first + state.units }} THEN {{ loop.index0 }}
            {% endfor %}
        END AS state,
        md5_number($seed::VARCHAR || ':situation:' || number) AS situations,
        md5_number($seed::VARCHAR || ':company:' || number) AS companies,
        md5_number($seed::VARCHAR || ':stranger:' || number) AS strangers
    FROM numbers
),
-- Words of 64 bits; the draws are slices of them.
worded AS (
    SELECT
        number,
        state,
        (situations & 18446744073709551615)::UBIGINT AS situation,
        (situations >> 64)::UBIGINT AS householder,
        (companies & 18446744073709551615)::UBIGINT AS company,
        (companies >> 64)::UBIGINT AS composition,
        (strangers & 18446744073709551615)::UBIGINT AS stranger{% if detailed %},
        ((strangers >> 64) & 2147483647)::BIGINT AS household_word{% endif %}

    FROM numbered
),
drawn AS (
    SELECT
        number,
        state,
        fips,
        fips * 1000000000 + (number - first) * stride % state.units + 1 AS mafid,
        CASE
            WHEN number - first < households THEN 'household'
            WHEN number - first < households + vacant THEN 'vacant'
            ELSE 'quarters'
        END AS kind,
        floor(block_groups * ((situation & 16777215) / 16777216))::BIGINT AS block_group,
        ((situation >> 24) & 65535) / 65536 AS block_draw,
        ((situation >> 40) & 65535) / 65536 AS tenure_draw,
        {% with word = "composition", names = ["form", "age", "parent", "youngest"] %}{% include "cef/draws.sql" %}{% endwith %}
        {% with word = "company", names = ["children", "relatives", "nonrelatives"] %}{% include "cef/draws.sql" %}{% endwith %}
        ((company >> 48) & 32767) / 32768 AS same_sex_draw,
        company >> 63 = 1 AS either_sex,
        {% with word = "householder", names = ["hispanic", "race", "multiple"] %}{% include "cef/draws.sql" %}{% endwith %}
        {% with word = "stranger", names = ["other_hispanic", "other_race", "other_multiple"] %}{% include "cef/draws.sql" %}{% endwith %}
        {% if detailed %}
        household_word
        {% endif %}
    FROM worded
    JOIN state USING (state)
),
-- The places, and the kind of tract whose shares the block has.
situated AS (
    SELECT
        drawn.*,
        county,
        tract,
        REGIONCE, DIVISIONCE, TABBLKST, TABBLKCOU, TABTRACTCE, PLACEFP,
        {% if detailed %}
        county_word,
        state_word,
        {% endif %}
        {% if varied_blocks %}
        md5_number_lower(concat_ws(':', $seed, 'block', fips, block_group, floor(25 * block_draw * block_draw)))
            AS block_word,
        CASE WHEN (block_word >> 8) % 100 < {{ varied_blocks }} THEN kinds[(1 + block_word % 32)::BIGINT]
            ELSE tract.mixture
        END AS mixture
        {% else %}
        mixture
        {% endif %}
    FROM drawn
    JOIN tract ON tract.state = drawn.state AND tract.tract = drawn.block_group // 3
),
-- The form of the household and the householder's age; and the race and ethnicity of two people of the tract: the
-- householder, and a second person for the members of the household who differ from the householder.
placed AS (
    SELECT
        situated.*,
        CASE
            WHEN form_draw < 0.460 THEN 'married'
            WHEN form_draw < 0.530 THEN 'cohabiting'
            WHEN form_draw < 0.815 THEN 'alone'
            WHEN form_draw < 0.882 THEN 'parent'
            WHEN form_draw < 0.969 THEN 'relatives'
            ELSE 'nonrelatives'
        END AS form,
        CASE
            WHEN form_draw < 0.530 THEN either_sex
            WHEN form_draw < 0.685 THEN false
            WHEN form_draw < 0.815 THEN true
            WHEN form_draw < 0.867 THEN false
            WHEN form_draw < 0.882 THEN true
            WHEN form_draw < 0.944 THEN false
            WHEN form_draw < 0.969 THEN true
            ELSE either_sex
        END AS male,
        -- Ages that divide the householders of each form into sixteenths.
        CASE form
            WHEN 'married' THEN [22, 27, 31, 35, 38, 41, 44, 48, 51, 55, 58, 62, 66, 70, 75, 82, 95]
            WHEN 'alone' THEN [20, 25, 29, 33, 38, 43, 49, 54, 58, 62, 65, 69, 73, 77, 81, 87, 100]
            WHEN 'parent' THEN [19, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 51, 55]
            WHEN 'relatives' THEN [18, 23, 28, 34, 40, 45, 49, 53, 56, 59, 62, 65, 69, 73, 78, 84, 98]
            ELSE [18, 20, 22, 24, 26, 28, 30, 32, 34, 37, 40, 44, 48, 53, 58, 66, 85]
        END AS ages,
        floor(16 * age_draw)::BIGINT AS sixteenth,
        ages[sixteenth + 1]
            + floor((ages[sixteenth + 2] - ages[sixteenth + 1]) * (16 * age_draw - sixteenth))::BIGINT AS age,
        {% for whose in ("", "other_") %}
        {% set hispanic, race, multiple = whose ~ "hispanic", whose ~ "race", whose ~ "multiple" %}
        {{ (hispanic ~ "_draw") | id }} < mixture.hispanic AS {{ ("is_" ~ hispanic) | id }},
        CASE
            WHEN {{ ("is_" ~ hispanic) | id }} THEN CASE
                WHEN {{ (race ~ "_draw") | id }} < 0.20 THEN 1
                WHEN {{ (race ~ "_draw") | id }} < 0.22 THEN 2
                WHEN {{ (race ~ "_draw") | id }} < 0.245 THEN 3
                WHEN {{ (race ~ "_draw") | id }} < 0.25 THEN 4
                WHEN {{ (race ~ "_draw") | id }} < 0.252 THEN 5
                WHEN {{ (race ~ "_draw") | id }} < 0.68 THEN 6
            END
            WHEN {{ (race ~ "_draw") | id }} < white THEN 1
            WHEN {{ (race ~ "_draw") | id }} < black THEN 2
            WHEN {{ (race ~ "_draw") | id }} < aian THEN 3
            WHEN {{ (race ~ "_draw") | id }} < asian THEN 4
            WHEN {{ (race ~ "_draw") | id }} < nhpi THEN 5
            WHEN {{ (race ~ "_draw") | id }} < other THEN 6
        END AS {{ ("single_" ~ race) | id }},
        7 + floor(57 * {{ (multiple ~ "_draw") | id }} * {{ (multiple ~ "_draw") | id }})::BIGINT
            AS {{ (whose ~ "combination") | id }},
        coalesce({{ ("single_" ~ race) | id }}, {{ (whose ~ "combination") | id }}) AS {{ race | id }},
        {% endfor %}
    FROM situated
    JOIN mixture USING (mixture)
),
-- The people whom the householder lives with. The age of the youngest child is drawn for the household, because it
-- determines whether there is an own child under 18.
composed AS (
    SELECT
        *,
        CASE form
            WHEN 'married' THEN CASE WHEN same_sex_draw < 0.013 THEN 23 ELSE 21 END
            WHEN 'cohabiting' THEN CASE WHEN same_sex_draw < 0.075 THEN 24 ELSE 22 END
        END AS couple,
        (couple IS NOT NULL)::BIGINT AS partners,
        CASE
            WHEN parent_draw >= CASE form
                WHEN 'married' THEN CASE WHEN age < 50 THEN 0.72 ELSE 0.30 END
                WHEN 'cohabiting' THEN CASE WHEN age < 50 THEN 0.40 ELSE 0.12 END
                WHEN 'parent' THEN 1
                WHEN 'relatives' THEN CASE WHEN age < 40 THEN 0 ELSE 0.50 END
                ELSE 0
            END THEN 0
            WHEN form = 'relatives' OR (form <> 'parent' AND age >= 50) THEN CASE WHEN children_draw < 0.75 THEN 1 ELSE 2 END
            WHEN children_draw < 0.40 THEN 1
            WHEN children_draw < 0.76 THEN 2
            WHEN children_draw < 0.91 THEN 3
            WHEN children_draw < 0.97 THEN 4
            ELSE 5 + floor(7 * ((children_draw - 0.97) / 0.03) * ((children_draw - 0.97) / 0.03))::BIGINT
        END AS children,
        CASE form WHEN 'parent' THEN least(17, age - 16) WHEN 'relatives' THEN age - 18 ELSE least(40, age - 18) END
            AS eldest_youngest,
        least(eldest_youngest, CASE form WHEN 'relatives' THEN 18 ELSE greatest(0, age - 45) END) AS least_youngest,
        least_youngest + floor((eldest_youngest - least_youngest + 1) * youngest_draw * youngest_draw)::BIGINT AS youngest,
        CASE form
            WHEN 'married' THEN 0.08
            WHEN 'cohabiting' THEN 0.05
            WHEN 'parent' THEN 0.22
            WHEN 'relatives' THEN CASE WHEN children = 0 THEN 1 ELSE 0.15 END
            ELSE 0
        END AS relatives_share,
        CASE WHEN relatives_draw < relatives_share
            THEN 1 + floor(8 * (relatives_draw / relatives_share) * (relatives_draw / relatives_share)
                * (relatives_draw / relatives_share) * (relatives_draw / relatives_share))::BIGINT
            ELSE 0
        END AS relatives,
        CASE form WHEN 'nonrelatives' THEN 1 WHEN 'alone' THEN 0 WHEN 'married' THEN 0.02 ELSE 0.05 END
            AS nonrelatives_share,
        CASE WHEN nonrelatives_draw < nonrelatives_share
            THEN 1 + floor(6 * (nonrelatives_draw / nonrelatives_share) * (nonrelatives_draw / nonrelatives_share)
                * (nonrelatives_draw / nonrelatives_share) * (nonrelatives_draw / nonrelatives_share))::BIGINT
            ELSE 0
        END AS nonrelatives,
        CASE
            WHEN form_draw < 0.35 THEN 'nursing'
            WHEN form_draw < 0.45 THEN 'correctional'
            WHEN form_draw < 0.70 THEN 'college'
            WHEN form_draw < 0.74 THEN 'juvenile'
            WHEN form_draw < 0.78 THEN 'institutional'
            WHEN form_draw < 0.81 THEN 'military'
            ELSE 'noninstitutional'
        END AS quarters,
        {% if dhc %}
        -- The tenure is drawn of households alone. Elsewhere, the same number decides the detailed type of group quarters,
        -- or why a unit is vacant.
        CASE WHEN kind = 'quarters' THEN CASE quarters
            WHEN 'correctional' THEN ['101', '102', '102', '103', '103', '103', '104', '104', '104', '104', '105', '106']
            WHEN 'juvenile' THEN ['201', '202', '203']
            WHEN 'nursing' THEN ['301']
            WHEN 'institutional' THEN ['401', '401', '402', '403', '404', '405', '405']
            WHEN 'college' THEN ['501']
            WHEN 'military' THEN ['601', '601', '601', '602']
            WHEN 'noninstitutional' THEN ['701', '701', '701', '801', '801', '801', '801', '802', '900', '901', '997']
        END ELSE ['000'] END AS facilities,
        facilities[1 + floor(len(facilities) * tenure_draw)::BIGINT] AS GQTYPE3,
        {% endif %}
        CASE kind
            WHEN 'household' THEN 1 + partners + children + relatives + nonrelatives
            WHEN 'vacant' THEN 0
            ELSE 1 + floor(CASE quarters
                WHEN 'nursing' THEN 120 * age_draw * age_draw * age_draw
                WHEN 'correctional' THEN 600 * age_draw * age_draw * age_draw * age_draw * age_draw
                WHEN 'college' THEN 200 * age_draw * age_draw * age_draw * age_draw
                WHEN 'military' THEN 100 * age_draw * age_draw * age_draw
                ELSE 20 * age_draw * age_draw
            END)::BIGINT
        END AS persons
    FROM placed
)
