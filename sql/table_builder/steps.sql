-- Steps of the grid nearest to a number, halves away from 0, from the least to the greatest: whole numbers throughout.
-- A CEF's decimals have 4 places, so 10000 times one is whole; $multiplier / $divisor steps are a ten-thousandth. No
-- number stays none: `least` and `greatest` would leave it out.
if({{ number | id }} IS NULL, NULL, greatest($least, least($most,
    sign({{ number | id }})
    * ((2 * abs(({{ number | id }}::DECIMAL(38, 4) * 10000)::HUGEINT) * $multiplier + $divisor) // (2 * $divisor::HUGEINT))
)))::BIGINT
