-- How often DuckLake enters a commit again because others were entered meanwhile, after 0.1 s each. Its ten attempts do
-- not suffice for eight writers.
SET GLOBAL ducklake_max_retry_count = 200;
SET GLOBAL ducklake_retry_wait_ms = 100;
SET GLOBAL ducklake_retry_backoff = 1
