-- The rows of several tables, such as those of all partitions.
{% for table in tables %}
SELECT {{ columns | ids("part") }} FROM {{ table }} AS part
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
