-- What each stratum contributes to each listed cell of a product, and to its totals over some columns: F, Σ f_i² and the
-- greatest f_i by holding variables and variables of persons, G by swap variables, and the swapped count, also with f
-- squared (mechanisms.swapping.uncertainty). The order of rows is fixed, because floats are added up in it.
WITH amounts AS (
    SELECT stratum, holding_code{% for column in held %}, {{ column | id }}{% endfor %}, any_value(records) AS records, sum(counted) AS counted
    FROM {{ amounts }}
    GROUP BY ALL
),
held AS (
    SELECT
        stratum{% for column in held %}, {{ column | id }}{% endfor %},
        sum(records * counted) AS held, sum(records * counted * counted) AS squares, max(counted) AS most
    FROM amounts
    GROUP BY ALL
),
swapped_in AS (
    SELECT stratum{% for column in swapped %}, {{ column | id }}{% endfor %}, sum(count) AS swapped_in
    FROM {{ swapping }}
    GROUP BY ALL
),
counts AS (
    SELECT
        amounts.stratum{% for column in held %}, amounts.{{ column | id }}{% endfor %}{% for column in swapped %}, swapping.{{ column | id }}{% endfor %},
        sum(cells.count * counted) AS count, sum(cells.count * counted * counted) AS count_of_squares
    FROM {{ cells }} AS cells
    JOIN amounts USING (holding_code)
    JOIN {{ swapping }} AS swapping USING (swap_code)
    GROUP BY ALL
)
SELECT
    product.cell, held.stratum, held.held::DOUBLE AS held, held.squares::DOUBLE AS squares, held.most::DOUBLE AS most,
    swapped_in.swapped_in::DOUBLE AS swapped_in, coalesce(counts.count, 0)::DOUBLE AS count,
    coalesce(counts.count_of_squares, 0)::DOUBLE AS count_of_squares
FROM {{ product }} AS product
JOIN swapped_in ON {{ swapped | same("product", "swapped_in") }}
JOIN held ON held.stratum = swapped_in.stratum AND {{ held | same("product", "held") }}
LEFT JOIN counts ON counts.stratum = held.stratum
    AND {{ held | same("product", "counts") }} AND {{ swapped | same("product", "counts") }}
WHERE true
{% for flag in summed %}
AND product.{{ flag | id }}
{% endfor %}
{% for flag in single %}
AND NOT product.{{ flag | id }}
{% endfor %}
ORDER BY product.cell, held.stratum
