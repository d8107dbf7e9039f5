-- What is measured in the places from `first` up to but excluding `last`, in the order of storage, with a mark by which
-- the lists of `topdown/answers` are known to be of these rows.
SELECT histogram, level, query, number, len(answers) AS size, {% include 'topdown/mark.sql' %} AS mark
{% include 'topdown/chosen_answers.sql' %}
