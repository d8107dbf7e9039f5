SELECT * FROM {{ table }} WHERE level = $level
