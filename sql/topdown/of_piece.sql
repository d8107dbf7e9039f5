{# Whether `place` is one of a piece: by level and number, from the first up to but excluding the last. By the first
   condition, rows in the order of the places are found without reading the others. Included in statements, never run
   alone. #}
{{ place | id }}.number >= $least AND {{ place | id }}.number < $end
AND ({{ place | id }}.depth > $depth OR {{ place | id }}.depth = $depth AND {{ place | id }}.number >= $number)
AND ({{ place | id }}.depth < $to_depth OR {{ place | id }}.depth = $to_depth AND {{ place | id }}.number < $to_number)
