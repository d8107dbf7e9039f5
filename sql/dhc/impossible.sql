SELECT coalesce(sum(count), 0)::BIGINT
FROM {{ counts }}
WHERE histogram = $histogram AND cell IN (SELECT cell FROM {{ impossible }})
