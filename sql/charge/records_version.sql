SELECT version FROM {{ table }}
