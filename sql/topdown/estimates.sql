-- The estimates of a level in their stored form.
SELECT histogram::VARCHAR AS histogram, number::BIGINT AS number, cell::BIGINT AS cell, count::BIGINT AS count
FROM {{ found }}
