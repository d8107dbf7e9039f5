SELECT {{ columns | ids }}, count(*) AS count FROM {{ records }} GROUP BY ALL
