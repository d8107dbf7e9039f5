SELECT {{ columns | ids }}, {{ number }} AS count FROM {{ records }} GROUP BY ALL
