SELECT count(*) FROM {{ table }}
