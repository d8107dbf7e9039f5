-- The numbers of pairs of a place and a type of dwelling with persons but no dwelling, with fewer persons than the
-- dwellings require, and with more persons than they allow.
WITH
exact AS (
    {% include "topdown/invariant_at_level.sql" %}
),
living AS (
    SELECT number, cell // $cells_of_a_type AS category, sum(count) AS persons
    FROM {{ estimates }}
    WHERE histogram = $histogram AND (cell >= $cells_of_a_type) = $group_quarters
    GROUP BY ALL
),
compared AS (
    SELECT coalesce(exact.count, 0) AS dwellings, coalesce(living.persons, 0) AS persons
    FROM exact FULL JOIN living USING (number, category)
)
SELECT
    count(*) FILTER (WHERE dwellings = 0 AND persons > 0),
    count(*) FILTER (WHERE persons < $least * dwellings),
    count(*) FILTER (WHERE dwellings > 0 AND persons > $most * dwellings)
FROM compared
