-- Whether two tables have the same rows in the same order: NULL equals NULL, and where one ends, so does the other.
SELECT
    (SELECT count(*) FROM {{ first }}) = (SELECT count(*) FROM {{ second }})
    AND NOT EXISTS (
        FROM {{ first }} AS one
        POSITIONAL JOIN {{ second }} AS other
        WHERE NOT ({{ columns | same("one", "other") }})
    )
