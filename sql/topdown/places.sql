-- The places of the finest level, with the codes of all places they lie in: a row for each combination that occurs.
-- Joining the codes of every unit takes three times as long as joining those of each combination of columns once.
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
FROM (SELECT DISTINCT {{ columns | ids }} FROM {{ units }})
