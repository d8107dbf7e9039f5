-- The noisy answers of `topdown/measured` in its order, one after the other, each list after its length. DuckDB hands over
-- lists as such in twice the time.
SELECT unnest(list_prepend(len(answers)::INTEGER, answers)) AS answer
{% include 'topdown/chosen_answers.sql' %}
