-- What each stratum contributes to each listed cell of a product, and to its totals over some columns: F, Σ f_i² and the
-- greatest f_i by holding variables and variables of persons, G by swap variables, and the swapped count, also with f
-- squared (mechanisms.swapping.uncertainty). The order of rows is fixed, because floats are added up in it.
WITH amounts AS (
    SELECT
        stratum, holding_code{% for column in held %}, {{ column | id }}{% endfor %},
        any_value(count) AS count, sum(persons) AS persons
    FROM {{ amounts }}
    GROUP BY ALL
),
margin AS (
    SELECT
        stratum{% for column in held %}, {{ column | id }}{% endfor %},
        sum(count * persons) AS sum_held, sum(count * persons * persons) AS sum_of_squares, max(persons) AS greatest_held
    FROM amounts
    GROUP BY ALL
),
swap_margin AS (
    SELECT stratum{% for column in swapped %}, {{ column | id }}{% endfor %}, sum(count) AS sum_swapped_in
    FROM {{ swapping }}
    GROUP BY ALL
),
counts AS (
    SELECT
        amounts.stratum
        {% for column in held %}, amounts.{{ column | id }}{% endfor %}
        {% for column in swapped if column not in held %}, swapping.{{ column | id }}{% endfor %},
        sum(cells.count * amounts.persons) AS count,
        sum(cells.count * amounts.persons * amounts.persons) AS count_of_squares
    FROM {{ cells }} AS cells
    JOIN amounts USING (holding_code)
    JOIN {{ swapping }} AS swapping USING (swap_code)
    GROUP BY ALL
),
-- First the strata in which the cell's swap values occur: there are few for a small area, and many with its other values.
in_strata AS MATERIALIZED (
    SELECT product.*, swap_margin.stratum, swap_margin.sum_swapped_in
    FROM {{ product }} AS product
    JOIN swap_margin ON {{ swapped | same("product", "swap_margin") }}
    WHERE true{% for flag in summed %} AND product.{{ flag | id }}{% endfor %}
{% for flag in single %} AND NOT product.{{ flag | id }}{% endfor %}

)
SELECT
    product.cell_number, product.stratum, margin.sum_held::DOUBLE AS held, margin.sum_of_squares::DOUBLE AS squares,
    margin.greatest_held::DOUBLE AS most, product.sum_swapped_in::DOUBLE AS swapped_in,
    coalesce(counts.count, 0)::DOUBLE AS count, coalesce(counts.count_of_squares, 0)::DOUBLE AS count_of_squares
FROM in_strata AS product
JOIN margin ON margin.stratum = product.stratum AND {{ held | same("product", "margin") }}
LEFT JOIN counts ON counts.stratum = product.stratum
    AND {{ held | same("product", "counts") }} AND {{ swapped | same("product", "counts") }}
ORDER BY product.cell_number, product.stratum
