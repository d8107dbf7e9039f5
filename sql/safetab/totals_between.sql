SELECT number - $first AS number, place, total FROM {{ totals }} WHERE number >= $first AND number < $last
