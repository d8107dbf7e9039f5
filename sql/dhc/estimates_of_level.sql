SELECT histogram, number, cell, count FROM {{ estimates }} WHERE level = $level
