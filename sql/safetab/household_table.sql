-- A table of households in the production layout: the measured cells, and the sums of them.
SELECT
    region_id AS "REGION_ID",
    region_type AS "REGION_TYPE",
    iteration_code AS "ITERATION_CODE",
    cells.cell AS {{ cell_column | id }},
    sum(count)::BIGINT AS "COUNT"
FROM {{ measurements }} AS measured
JOIN {{ cells }} AS cells USING (table_name, data_cell)
WHERE table_name = $table_name
GROUP BY ALL
