-- The domains' tables, which have the categories of a variable, each with what it adds to the number of a cell.
{% for domain in domains %}
LEFT JOIN {{ domain.table }} AS d{{ loop.index }} ON source.{{ domain.column | id }} IS NOT DISTINCT FROM d{{ loop.index }}.category
{% endfor %}
