-- The noisy answers of `topdown/measured`, one after the other, each list after its mark. DuckDB hands over lists as such in
-- twice the time.
SELECT unnest(list_prepend({% include 'topdown/mark.sql' %}, answers)) AS answer
{% include 'topdown/chosen_answers.sql' %}
