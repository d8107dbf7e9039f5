SELECT number, cell, count FROM {{ estimates }} WHERE histogram = $histogram
