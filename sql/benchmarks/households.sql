-- Households with plausible cardinalities; each column is a hash of the household's number.
SELECT
    number AS serial,
    'S' || lpad((place % 10)::VARCHAR, 2, '0') AS state,
    lpad((place % 500)::VARCHAR, 3, '0') AS county,
    lpad((place % 60000)::VARCHAR, 12, '0') AS block_group,
    (1 + hash(number * 7) % 7)::BIGINT AS size,
    (1 + hash(number * 11) % 4)::BIGINT AS tenure,
    (1 + hash(number * 13) % 7)::BIGINT AS race,
    (15 + hash(number * 17) % 85)::BIGINT AS age
FROM (SELECT number, hash(number) AS place FROM range($households) AS numbers(number))
