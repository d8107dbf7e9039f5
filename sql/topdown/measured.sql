-- What is measured in the places from `first` up to but excluding `last`, in the order of storage, with the number of
-- answers.
SELECT histogram, level, query, number, len(answers) AS size
{% include 'topdown/chosen_answers.sql' %}
