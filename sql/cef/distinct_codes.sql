-- The codes in each of some columns, with the number of the column, from 0, and the number of rows. DuckDB reads the parts
-- of a union in parallel, even in a running transaction, where it reads a single SELECT on one core.
{% for column in columns %}
SELECT {{ loop.index0 }} AS number, {{ column | id }} AS code, count(*) AS records
FROM {{ table }}
GROUP BY {{ column | id }}
{% if not loop.last %}UNION ALL{% endif %}

{% endfor %}
