-- The linear estimates of every place of a level, their variances, and their covariances with those that are shared.
SELECT number, estimate, variance, covariance
FROM {{ linear }}
WHERE histogram = $histogram AND level = $level
ORDER BY number
