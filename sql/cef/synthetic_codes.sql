{# Detailed codes of the persons of a synthetic census. It continues the WITH clause of
`cef/synthetic_persons.sql`, and is never run alone.

A code is a position in the list of its race. Positions close to the beginning of a list are the most frequent, where the
list begins at a place that depends on the county, on the state, or on neither. A person's word decides all of its codes; the
members of a household mostly have the same one. #}
,
worded_person AS (
    SELECT
        *,
        CASE
            WHEN likeness = 1 OR kind = 'quarters' OR unlike_draw < 0.06 THEN own_word
            ELSE household_word
        END AS word,
        list_extract($combinations, person_race) AS races,
        {% for list in lists %}
        word * {{ list.multiplier }} % 2147483647 AS turn_{{ list.number }},
        {% endfor %}
        {% for multiplier in extra_multipliers %}
        word * {{ multiplier }} % 2147483647 AS extra_turn_{{ loop.index }},
        {% endfor %}
    FROM person
),
listed AS (
    SELECT
        *,
        {% for list in lists %}
        {% set n = list.number %}
        (turn_{{ n }} // 10) / 214748365 AS quantile_{{ n }},
        CASE WHEN
            {% if n == 7 %}
            is_person_hispanic
            {% else %}
            races & {{ 2 ** (n - 1) }} <> 0
            {% endif %}
            THEN (
                CASE
                    WHEN turn_{{ n }} % 10 < 4 THEN county_word * {{ list.multiplier }} % 2147483647 % {{ list.size }}
                    WHEN turn_{{ n }} % 10 < 7 THEN state_word * {{ list.multiplier }} % 2147483647 % {{ list.size }}
                    ELSE 0
                END + floor({{ list.size }} * quantile_{{ n }} * quantile_{{ n }} * quantile_{{ n }} * quantile_{{ n }})::BIGINT
            ) % {{ list.size }}
        END AS position_{{ n }},
        {% endfor %}
        -- Most Hispanic persons of Some Other Race have their origin as a race code too.
        is_person_hispanic AND turn_6 // 10 % 20 < 17 AS is_origin_race
    FROM worded_person
),
-- Up to two further codes of the first race of the person, in its list behind the first one.
extended AS (
    SELECT
        *,
        CASE
            {% for list in lists if list.number < 6 %}
            WHEN position_{{ list.number }} IS NOT NULL THEN {{ list.number }}
            {% endfor %}
            WHEN is_origin_race THEN 7
            ELSE 6
        END AS main,
        {% for share in (26, 8) %}
        {% set turn = ("extra_turn_" ~ loop.index) | id %}
        CASE WHEN extra_turn_1 % 100 < {{ share }} THEN
            CASE main
                {% for list in lists %}
                WHEN {{ list.number }} THEN {{ list.first + 1 }} + (position_{{ list.number }} + 1 + floor(
                    {{ list.size - 1 }} * (({{ turn }} // 100) / 21474837) * (({{ turn }} // 100) / 21474837)
                )::BIGINT) % {{ list.size }}
                {% endfor %}
            END
        END AS extra_{{ loop.index }},
        {% endfor %}
    FROM listed
),
coded AS (
    SELECT
        *,
        CASE WHEN is_person_hispanic THEN list_extract($codes, {{ lists[6].first + 1 }} + position_7) ELSE $not_hispanic END
            AS QSPAN,
        -- All codes have four digits.
        concat(
            {% for list in lists if list.number < 6 %}
            list_extract($codes, {{ list.first + 1 }} + position_{{ list.number }}),
            {% endfor %}
            CASE
                WHEN position_6 IS NULL THEN NULL
                WHEN is_origin_race THEN QSPAN
                ELSE list_extract($codes, {{ lists[5].first + 1 }} + position_6)
            END,
            list_extract($codes, extra_1),
            list_extract($codes, extra_2)
        ) AS race_codes,
        {% for place in range(8) %}
        CASE
            WHEN length(race_codes) > {{ 4 * place }} THEN substr(race_codes, {{ 4 * place + 1 }}, 4)
            ELSE $no_code
        END AS QRACE{{ place + 1 }},
        {% endfor %}
    FROM extended
)
