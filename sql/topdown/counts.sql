-- The counts of some places, in any order.
SELECT number, cell, count
{% include 'topdown/chosen_counts.sql' %}
