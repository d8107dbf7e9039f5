-- By cell and number of a variable from its least step on, how many records there are, or what their weights add up to.
-- A record without a number is in no node. Both have names that no variable of a hypercube has.
SELECT {% include "table_builder/cell.sql" %} AS cell, source.measured AS number, source.count
FROM (
    SELECT
        {{ columns | ids }},
        {% with amount = variable %}{% include "table_builder/steps.sql" %}{% endwith %} - {{ variable.grid.least }} AS measured,
        {% if amount %}
        coalesce(sum({% include "table_builder/steps.sql" %}), 0)::BIGINT AS count
        {% else %}
        count(*) AS count
        {% endif %}
    FROM ({% include "table_builder/records.sql" %})
    WHERE {{ variable.column | id }} IS NOT NULL
    GROUP BY ALL
) AS source
{% include "table_builder/steps_of_categories.sql" %}
