INSERT INTO {{ table }}
SELECT
    $region_type,
    $level,
    lpad(region::VARCHAR, $digits, '0'),
    lpad(iteration::VARCHAR, 4, '0'),
    detail,
    cell,
    count
FROM {{ rows }}
