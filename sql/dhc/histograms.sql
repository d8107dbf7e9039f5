-- Persons, units and households of every place of the finest level, by cell of their histograms. Empty cells are left out.
{% for histogram, attributes in histograms %}
SELECT
    $names[{{ loop.index }}] AS histogram,
    number,
    {% for attribute in attributes[1:] %}({% endfor %}{{ attributes[0].name | id }}{% for attribute in attributes[1:] %} * {{ attribute.size }} + {{ attribute.name | id }}){% endfor %}
 AS cell,
    count(*) AS count
FROM (
    {% include "dhc/" ~ histogram ~ ".sql" %}
)
GROUP BY ALL
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
ORDER BY histogram, number, cell
