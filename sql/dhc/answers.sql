SELECT query, number, cells, answers
{% include 'topdown/chosen_answers.sql' %}
