-- The records of a histogram: one for each unit of its counts, numbered from 1 by place and cell, with the codes of the
-- census files. Those of one state are numbered after the records that the estimates of the states count before it.
SELECT
    records.record,
    place.geoid,
    {% for name, inner, size in attributes %}
    $codes[{{ loop.index }}][records.cell // {{ inner }} % {{ size }} + 1] AS {{ name | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM (
    SELECT number, cell, unnest(range(last - count + 1, last + 1)) AS record
    FROM (
        SELECT
            number, cell, count,
            {% if states %}
            (
                SELECT coalesce(sum(count), 0)::BIGINT FROM {{ states }} WHERE histogram = $histogram AND number < $state
            ) +
            {% endif %}
            sum(count) OVER (ORDER BY number, cell ROWS UNBOUNDED PRECEDING)::BIGINT AS last
        FROM {{ estimates }}
        WHERE histogram = $histogram
    )
) AS records
JOIN {{ spine }} AS place ON place.level = $finest AND place.number = records.number
ORDER BY records.record
