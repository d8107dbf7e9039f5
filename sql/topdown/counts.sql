SELECT number, cell, count
{% include 'topdown/chosen_counts.sql' %}
ORDER BY number, cell
