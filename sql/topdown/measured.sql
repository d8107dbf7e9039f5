-- The noisy answers in some places, with what they answer.
SELECT histogram, level, query, number, answers
{% include 'topdown/chosen_answers.sql' %}
