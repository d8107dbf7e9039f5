SELECT sum(count)::BIGINT FROM {{ table }}
