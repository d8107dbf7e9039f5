{# What tells a row of measurements from others: 31 bits of a hash. Included in statements, never run alone. #}
(hash(histogram, level, query, number, len(answers)) >> 33)::INTEGER
