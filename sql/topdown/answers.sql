-- The noisy answers of `topdown/measured`, one after the other. DuckDB takes twice as long to hand over lists as such, or
-- to add anything to each of them.
SELECT unnest(answers) AS answer
{% include 'topdown/chosen_answers.sql' %}
