SELECT coalesce(sum(count), 0)::BIGINT FROM {{ counts }} WHERE cell IS NULL
