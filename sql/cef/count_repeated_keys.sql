-- The number of rows whose key repeats that of an earlier row.
SELECT count({{ key | id }}) - count(DISTINCT {{ key | id }}) FROM {{ table }}
