SELECT DISTINCT {{ name | id }} FROM {{ relation }} WHERE {{ name | id }} IS NOT NULL ORDER BY 1
