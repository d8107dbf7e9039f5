{# Each column three times: as text, in which codes for no value or 0 are replaced, converted to its type, and recoded as declared. NULL is what is ill-typed, or is in no
   band or category. The bound ends and codes are texts, so that they are converted exactly. Included in statements,
   never run alone. #}
SELECT
    *
    {% for name, read in columns.items() %}
    {% set number = loop.index0 %}
    ,
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
        $labels_{{ number }}[list_position(CAST($codes_{{ number }} AS {{ read.stored }}[]), typed_{{ number }})],
        CAST($else_{{ number }} AS VARCHAR)
    ) END
    {% elif read.recode == "coding" %}
    -- A bound that is NULL does not count.
    CASE WHEN typed_{{ number }} IS NOT NULL THEN greatest(
        least(typed_{{ number }}, CAST($top_{{ number }} AS {{ read.stored }})),
        CAST($bottom_{{ number }} AS {{ read.stored }})
    ) END
    {% else %}
    typed_{{ number }}
    {% endif %}
    AS recoded_{{ number }}
    {% endfor %}
FROM (
    SELECT
        {% for name, read in columns.items() %}
        {{ name | id }} AS text_{{ loop.index0 }},
        {% with type = read.type %}{% include "cef/typed_column.sql" %}{% endwith %}
        AS typed_{{ loop.index0 }},
        {% endfor %}
    FROM (
        SELECT
            {% for name, read in columns.items() %}
            {% if read.written %}
            CASE
                {% if "null" in read.written %}
                WHEN list_contains($null_{{ loop.index0 }}, {{ name | id }}) THEN NULL
                {% endif %}
                {% if "zero" in read.written %}
                WHEN list_contains($zero_{{ loop.index0 }}, {{ name | id }}) THEN '0'
                {% endif %}
                ELSE {{ name | id }}
            END AS
            {% endif %}
            {{ name | id }},
            {% endfor %}
        FROM ({{ relation }})
    )
)
