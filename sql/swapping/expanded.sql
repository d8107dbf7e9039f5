SELECT {{ columns | ids }}
FROM (SELECT * EXCLUDE (count), unnest(range(count)) AS count FROM {{ cells }})
