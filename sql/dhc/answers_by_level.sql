SELECT histogram, level, count(DISTINCT number), sum(len(answers))::BIGINT
FROM {{ measurements }}
GROUP BY histogram, level
