-- Persons as one text, in order, so that units with the same persons have the same text. An aggregate with an order takes
-- four times as long.
array_to_string(list_sort(list(person)), '')
