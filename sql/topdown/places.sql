-- The places of the finest level, with the codes of all places they lie in: a row for each combination that occurs.
SELECT DISTINCT
    {% for level, columns, prefix in codes %}
    {% if columns %}
    {% include "topdown/code.sql" %}
    {% elif prefix %}
    left({% with columns = finest_columns %}{% include "topdown/code.sql" %}{% endwith %}, {{ prefix }})
    {% else %}
    $root
    {% endif %} AS {{ level | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM {{ units }}
