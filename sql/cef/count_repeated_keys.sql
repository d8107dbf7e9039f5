SELECT count({{ key | id }}) - count(DISTINCT {{ key | id }}) FROM {{ table }}
