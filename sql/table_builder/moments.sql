-- By cell, the sums of the products of scaled variables, times weights. A record in which a variable is empty is left out.
-- A sum that 64 bits do not hold is none.
SELECT
    {% include "table_builder/cell.sql" %} AS cell
    {% for _ in pairs %}
    , TRY_CAST(source.component_{{ loop.index0 }} AS BIGINT) AS component_{{ loop.index0 }}
    {% endfor %}
FROM (
    SELECT
        {{ columns | ids }}
        {% for one, other in pairs %}
        , sum(weight::HUGEINT * scaled_{{ one }} * scaled_{{ other }}) AS component_{{ loop.index0 }}
        {% endfor %}
    FROM (
        SELECT
            {{ columns | ids }}, weight, {{ steps }} AS scaled_0
            {% for scale in scales %}
            {% with place = loop.index %}
            , ({% include "table_builder/scaled.sql" %})::BIGINT AS scaled_{{ place }}
            {% endwith %}
            {% endfor %}
        FROM (
            SELECT
                {{ columns | ids }}, {% if amount %}{% include "table_builder/steps.sql" %}{% else %}1{% endif %} AS weight
                {% for variable in variables %}
                , 2 * ({{ variable | id }}::DECIMAL(38, 4) * 10000)::HUGEINT - {{ scales[loop.index0].doubled_center }} AS doubled_{{ loop.index }}
                {% endfor %}
            FROM ({% include "table_builder/records.sql" %})
            WHERE {% for variable in variables %}{% if not loop.first %} AND {% endif %}{{ variable | id }} IS NOT NULL{% endfor %}
        )
        WHERE weight IS NOT NULL
    )
    GROUP BY {{ columns | ids }}
) AS source
{% include "table_builder/steps_of_categories.sql" %}
