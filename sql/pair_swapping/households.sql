-- The households that may be swapped, as codes, in the order in which the mechanism takes them.
SELECT
    {{ key | id }} AS unit_key,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLKGRPCE, TABBLK) - 1)::INTEGER AS block,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLKGRPCE) - 1)::INTEGER AS block_group,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU, TABTRACTCE) - 1)::INTEGER AS tract,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU) - 1)::INTEGER AS county,
    (dense_rank() OVER (ORDER BY TABBLKST) - 1)::INTEGER AS state,
    (dense_rank() OVER (ORDER BY TABBLKST, adults, minors, TEN) - 1)::INTEGER AS partners,
    (dense_rank() OVER (ORDER BY {{ key_variables | ids("records") }}) - 1)::INTEGER AS key_values
    {% if traits is defined %}
    , traits.block_households, traits.block_imputed, traits.unique_race, traits.imputed_items
    {% endif %}
FROM {{ records }} AS records
{% if traits is defined %}
JOIN (
    SELECT
        {{ key | id }} AS of_unit,
        (count(*) FILTER (RTYPE = '2' AND adults + minors > 0) OVER block)::INTEGER AS block_households,
        (count(*) FILTER (RTYPE = '2' AND adults + minors > 0 AND NOT swappable) OVER block)::INTEGER AS block_imputed,
        {% if race %}(rare.of_unit IS NOT NULL)::INTEGER{% else %}0{% endif %} AS unique_race,
        {% if items %}coalesce(each.{{ items | id }}, 0)::INTEGER{% else %}0{% endif %} AS imputed_items
    FROM {{ records }} AS each
    {% if race %}
    -- The units that have a race to themselves in their block.
    LEFT JOIN (
        SELECT DISTINCT any_value(units.{{ key | id }}) AS of_unit
        FROM {{ persons }} AS persons
        JOIN {{ units }} AS units ON units.{{ key | id }} = persons.{{ key | id }}
        GROUP BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLKGRPCE, TABBLK, persons.{{ race | id }}
        HAVING count(DISTINCT units.{{ key | id }}) = 1
    ) AS rare ON rare.of_unit = each.{{ key | id }}
    {% endif %}
    WINDOW block AS (PARTITION BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLKGRPCE, TABBLK)
) AS traits ON traits.of_unit = records.{{ key | id }}
{% endif %}
WHERE swappable
ORDER BY block, unit_key
