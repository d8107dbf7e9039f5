{# The converted value `typed_<number>` recoded as declared; NULL if it is in no band or category. The bound ends and
   codes are texts, so that they are converted exactly. Included in statements, never run alone. #}
{% if read.recode == "bands" %}
CASE
    WHEN typed_{{ number }} IS NULL OR typed_{{ number }} < CAST($starts_{{ number }}[1] AS {{ read.stored }}) THEN NULL
    {% for band in range(1, read.bands + 1) %}
    WHEN {% if loop.last %}$ends_{{ number }}[{{ band }}] IS NULL OR {% endif %}
        typed_{{ number }} < CAST($ends_{{ number }}[{{ band }}] AS {{ read.stored }})
    THEN $labels_{{ number }}[{{ band }}]
    {% endfor %}
END
{% elif read.recode == "merge" %}
CASE WHEN typed_{{ number }} IS NOT NULL THEN coalesce(
    (
        SELECT merged.category
        FROM (
            SELECT
                CAST(unnest(CAST($codes_{{ number }} AS VARCHAR[])) AS {{ read.stored }}) AS code,
                unnest(CAST($labels_{{ number }} AS VARCHAR[])) AS category
        ) AS merged
        WHERE merged.code = typed_{{ number }}
    ),
    CAST($else_{{ number }} AS VARCHAR)
) END
{% elif read.recode == "coding" %}
CASE
    WHEN typed_{{ number }} < CAST($bottom_{{ number }} AS {{ read.stored }})
    THEN CAST($bottom_{{ number }} AS {{ read.stored }})
    WHEN typed_{{ number }} > CAST($top_{{ number }} AS {{ read.stored }})
    THEN CAST($top_{{ number }} AS {{ read.stored }})
    ELSE typed_{{ number }}
END
{% else %}
typed_{{ number }}
{% endif %}
