-- Dwellings are numbered from 0, one cell of county by tenure after the other. The size of dwelling i is the one whose
-- range of cumulative totals contains i * stride modulo the number of dwellings.
WITH
cells AS (
    SELECT
        county,
        tenure,
        dwellings,
        (sum(dwellings) OVER (ORDER BY county, tenure) - dwellings)::BIGINT AS first
    FROM (
        UNPIVOT (
            FROM read_csv(
                $margins,
                auto_detect = false,
                header = true,
                columns = {'county': 'VARCHAR', 'owned': 'BIGINT', 'rented': 'BIGINT'}
            )
        ) ON owned, rented INTO NAME tenure VALUE dwellings
    )
),
numbered AS (
    SELECT county, tenure, unnest(range(first, first + dwellings)) AS number FROM cells
),
dwellings AS (
    SELECT
        number + 1 AS serial,
        'MA' AS state,
        county,
        CASE
            {% for size, bound in bounds.items() %}
            WHEN number * {{ stride }} % {{ dwellings }} < {{ bound }} THEN {{ size }}
            {% endfor %}
        END AS persons_per_household,
        tenure
    FROM numbered
)
SELECT
    {% for name, source in columns.items() %}
    {{ source | id }}{% if not typed %}::VARCHAR{% endif %} AS {{ name | id }},
    {% endfor %}
FROM dwellings
