-- The cells of the inner table that occur, each with its number and what its records add up to.
SELECT {% include "table_builder/cell.sql" %} AS cell, source.count
FROM (
    SELECT
        {{ columns | ids }},
        {% if amount %}
        coalesce(sum({% include "table_builder/steps.sql" %}), 0)::BIGINT AS count
        {% else %}
        count(*) AS count
        {% endif %}
    FROM ({% include "table_builder/records.sql" %})
    GROUP BY {{ columns | ids }}
) AS source
{% include "table_builder/steps_of_categories.sql" %}
