-- Rows whose key another row before them has had.
SELECT count({{ key | id }}) - count(DISTINCT {{ key | id }}) FROM {{ table }}
