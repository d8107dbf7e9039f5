-- What is measured in the places from `first` up to but excluding `last`, in the order of storage.
SELECT histogram, level, query, number
{% include 'topdown/chosen_answers.sql' %}
