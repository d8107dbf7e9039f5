-- The linear estimates of every place of a level, and their covariances.
SELECT number, estimate, covariance
FROM {{ linear }}
WHERE histogram = $histogram AND level = $level
ORDER BY number
