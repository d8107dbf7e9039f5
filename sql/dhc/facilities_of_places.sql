SELECT number, type, count FROM {{ facilities }} WHERE number >= $first AND number < $last
