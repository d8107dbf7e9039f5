-- The least and the greatest numbers of a column of texts, and the most frequent ones of its texts that are neither
-- numbers nor dates and of its numbers, each with its number of rows. Integers may have more digits than decimals.
WITH counted AS (
    SELECT {{ name | id }} AS text, count(*) AS rows, any_value(coalesce(
        {% with type = "rounded" %}{% include "cef/typed_column.sql" %}{% endwith %},
        {% with type = "integer" %}{% include "cef/typed_column.sql" %}{% endwith %}
    )) AS number
    FROM {{ relation }}
    WHERE {{ name | id }} IS NOT NULL
    GROUP BY ALL
)
SELECT
    min_by({'text': text, 'rows': rows}, number, $most),
    max_by({'text': text, 'rows': rows}, number, $most),
    max_by({'text': text, 'rows': rows}, rows, $most) FILTER (
        WHERE number IS NULL AND ({% with name = "text", type = "date" %}{% include "cef/typed_column.sql" %}{% endwith %}) IS NULL
    ),
    max_by({'text': text, 'rows': rows}, rows, $most) FILTER (WHERE number IS NOT NULL)
FROM counted
