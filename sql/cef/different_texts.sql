{# The different texts of the column `name` of `relation`, with the rows of each. Included in statements, never run alone. #}
SELECT {{ name | id }} AS text, count(*) AS rows FROM {{ relation }} WHERE {{ name | id }} IS NOT NULL GROUP BY ALL
