-- Records with four variables of 20, 25, 20 and 20 categories; each variable is a hash of the record's number.
SELECT
    number AS serial,
    (hash(number * 7) % 20)::BIGINT AS age,
    (hash(number * 11) % 25)::BIGINT AS region,
    (hash(number * 13) % 20)::BIGINT AS occupation,
    (hash(number * 17) % 20)::BIGINT AS income
FROM range($records) AS numbers(number)
