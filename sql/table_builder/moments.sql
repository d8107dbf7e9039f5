-- By cell, the sums of the products of scaled variables, times weights. A record in which a variable is empty is left out.
-- A sum that 64 bits do not hold is none. No variable of a hypercube has the names count, of the weight, and measured.
SELECT
    {% include "table_builder/cell.sql" %} AS cell
    {% for _ in pairs %}
    , TRY_CAST(source.measured[{{ loop.index }}] AS BIGINT) AS component_{{ loop.index0 }}
    {% endfor %}
FROM (
    SELECT
        {{ columns | ids }}, [
        {% for one, other in pairs %}
        sum(count::HUGEINT * measured[{{ one + 1 }}] * measured[{{ other + 1 }}]){% if not loop.last %},{% endif %}

        {% endfor %}
        ] AS measured
    FROM (
        SELECT
            {{ columns | ids }}, count, [{{ steps }}::BIGINT
            {% for scale in scales %}
            {% with place = loop.index %}
            , ({% include "table_builder/scaled.sql" %})::BIGINT
            {% endwith %}
            {% endfor %}
            ] AS measured
        FROM (
            SELECT
                {{ columns | ids }}, {% if amount %}{% include "table_builder/steps.sql" %}{% else %}1{% endif %} AS count,
                [
                {% for variable in variables %}
                2 * ({{ variable | id }}::DECIMAL(38, 4) * 10000)::HUGEINT - {{ scales[loop.index0].doubled_center }}{% if not loop.last %},{% endif %}

                {% endfor %}
                ] AS measured
            FROM ({% include "table_builder/records.sql" %})
            WHERE {% for variable in variables %}{% if not loop.first %} AND {% endif %}{{ variable | id }} IS NOT NULL{% endfor %}
        )
        WHERE count IS NOT NULL
    )
    GROUP BY {{ columns | ids }}
) AS source
{% include "table_builder/steps_of_categories.sql" %}
