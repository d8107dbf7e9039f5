-- What was estimated of a level, as it is stored.
SELECT histogram::VARCHAR AS histogram, number::BIGINT AS number, cell::BIGINT AS cell, count::BIGINT AS count
FROM {{ found }}
