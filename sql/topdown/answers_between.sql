-- The noisy answers to all queries in the places from `first` up to but excluding `last`, as they are stored or in order.
SELECT query, number, answers
FROM {{ measurements }}
WHERE histogram = $histogram AND level = $level AND number >= $first AND number < $last
{% if in_order %}
ORDER BY query, number
{% endif %}
