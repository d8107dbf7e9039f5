{# Whether `place` is one of a piece: by level and number, from the first up to but excluding the last. Included in
   statements, never run alone. #}
({{ place | id }}.depth > $depth OR {{ place | id }}.depth = $depth AND {{ place | id }}.number >= $number)
AND ({{ place | id }}.depth < $to_depth OR {{ place | id }}.depth = $to_depth AND {{ place | id }}.number < $to_number)
