-- Households in the form that targeted pair swapping takes, with plausible cardinalities: four to a block, blocks nested in
-- block groups, tracts, counties and 51 states; each other column is a hash of the household's number.
SELECT
    number AS unit_key,
    block,
    (block // 25)::INTEGER AS block_group,
    (block // 75)::INTEGER AS tract,
    (block // 1500)::INTEGER AS county,
    (block // blocks_of_state)::INTEGER AS state,
    ((block // blocks_of_state) * 128 + hash(number * 11) % 128)::INTEGER AS partners,
    (least(hash(number * 13) % 40000, hash(number * 17) % 40000))::INTEGER AS key_values
FROM (
    SELECT
        number,
        (number // 4)::INTEGER AS block,
        greatest(1500, ($households // 4 // 51 // 1500 + 1) * 1500) AS blocks_of_state
    FROM range($households) AS numbers(number)
)
ORDER BY block, unit_key
