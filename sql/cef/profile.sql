-- For each column of texts: values, different values, values with a leading zero, values that are not only digits, the
-- shortest and longest value, values with blanks at an end, with marks between thousands, with an exponent or with many
-- digits, like numbers, below 0, the rows of each of the texts `missing`, and, for each type, the values that are not of
-- it. Each different text is looked at once. All of it is confidential.
SELECT
    {% for name in columns %}
    (
        SELECT {
            'present': coalesce(sum(rows), 0)::BIGINT,
            'different': count(*),
            'padded': coalesce(sum(rows) FILTER (WHERE regexp_matches(text, '^-?0[0-9]')), 0)::BIGINT,
            'not_digits': coalesce(sum(rows) FILTER (WHERE NOT regexp_full_match(text, '[0-9]+')), 0)::BIGINT,
            'shortest': min(length(text)),
            'longest': max(length(text)),
            'blanks': coalesce(sum(rows) FILTER (WHERE regexp_matches(text, '^\s|\s$')), 0)::BIGINT,
            'thousands': coalesce(sum(rows) FILTER (WHERE regexp_full_match(text, '-?[0-9]{1,3}([, ''’][0-9]{3})+(\.[0-9]*)?')), 0)::BIGINT,
            'exponents': coalesce(sum(rows) FILTER (WHERE regexp_full_match(text, '-?[0-9.]+[eE][-+]?[0-9]+')), 0)::BIGINT,
            'too_fine': coalesce(sum(rows) FILTER (WHERE regexp_full_match(text, '-?[0-9]*\.[0-9]{5,}')), 0)::BIGINT,
            'like_numbers': coalesce(sum(rows) FILTER (WHERE regexp_full_match(trim(text), '-?[.,]?[0-9][0-9., ''’]*([eE][-+]?[0-9]+)?')), 0)::BIGINT,
            'negative': coalesce(sum(rows) FILTER (WHERE regexp_matches(text, '^-[0-9]*\.?[0-9]*[1-9]')), 0)::BIGINT,
            'missing': map_from_entries(list({'text': text, 'rows': rows}) FILTER (WHERE list_contains($missing, text))),
            {% for type in types %}
            {{ type | id }}: coalesce(sum(rows) FILTER (WHERE ({% with name = "text" %}{% include "cef/typed_column.sql" %}{% endwith %}) IS NULL), 0)::BIGINT{% if not loop.last %},{% endif %}
            {% endfor %}
        }
        FROM ({% include "cef/different_texts.sql" %})
    ) AS {{ name | id }},
    {% endfor %}
