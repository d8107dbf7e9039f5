-- The codes in each of some columns, with the number of the column, from 0, and the number of rows. Parts of a union are
-- read side by side, also from a running transaction, whose rows a single statement reads on one core.
{% for column in columns %}
SELECT {{ loop.index0 }} AS number, {{ column | id }} AS code, count(*) AS records
FROM {{ table }}
GROUP BY {{ column | id }}
{% if not loop.last %}UNION ALL{% endif %}

{% endfor %}
