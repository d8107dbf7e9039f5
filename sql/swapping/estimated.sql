-- A product with the estimates of its cells, given in hundredths.
SELECT
    product.* EXCLUDE (cell_number)
    {% for name in figures %}, (estimates.{{ name | id }} / 100)::DECIMAL(18, 2) AS {{ name | id }}{% endfor %}

FROM {{ product }} AS product
JOIN {{ estimates }} AS estimates USING (cell_number)
ORDER BY cell_number
