-- Steps of the grid nearest to a number, halves away from 0, from the least to the greatest: whole numbers throughout.
-- A CEF's decimals have 4 places, so 10000 times one is whole; multiplier / divisor steps are a ten-thousandth. No
-- number stays none: `least` and `greatest` would leave it out.
if({{ amount.column | id }} IS NULL, NULL, greatest({{ amount.grid.least }}, least({{ amount.grid.most }},
    sign({{ amount.column | id }})
    * ((2 * abs(({{ amount.column | id }}::DECIMAL(38, 4) * 10000)::HUGEINT) * {{ amount.grid.multiplier }} + {{ amount.grid.divisor }})
        // (2 * {{ amount.grid.divisor }}::HUGEINT))
)))::BIGINT
