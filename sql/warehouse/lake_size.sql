-- How many bytes the files occupy that the catalog of a lake knows.
SELECT coalesce(size, 0)::BIGINT
FROM postgres_query({{ catalog }}, 'SELECT sum(file_size_bytes) AS size FROM ducklake_data_file')
