COPY (SELECT {{ columns | ids }} FROM {{ table }} ORDER BY ALL)
TO {{ path }} (FORMAT parquet, COMPRESSION zstd)
