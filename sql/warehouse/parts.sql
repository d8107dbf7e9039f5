-- The rows of Parquet files, in the order of the files and of the rows in each.
SELECT * FROM read_parquet($files)
