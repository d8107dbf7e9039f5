-- The number of records, and for each column of texts: values, different values, values with a leading zero, values that
-- are not only digits, the shortest and longest value, values with blanks at an end, like numbers, below 0, with marks between thousands, with an
-- exponent or with many digits, the rows of each of the texts `missing`, and, for each type, the values that are not of it.
-- All of it is confidential.
SELECT
    count(*) AS records
    {% for name in columns %}
    , {
        'present': count({{ name | id }}),
        'different': count(DISTINCT {{ name | id }}),
        'padded': count(*) FILTER (WHERE regexp_matches({{ name | id }}, '^-?0[0-9]')),
        'not_digits': count(*) FILTER (WHERE NOT regexp_full_match({{ name | id }}, '[0-9]+')),
        'shortest': min(length({{ name | id }})),
        'longest': max(length({{ name | id }})),
        'blanks': count(*) FILTER (WHERE regexp_matches({{ name | id }}, '^\s|\s$')),
        'thousands': count(*) FILTER (WHERE regexp_full_match({{ name | id }}, '-?[0-9]{1,3}([, ''’][0-9]{3})+(\.[0-9]*)?')),
        'exponents': count(*) FILTER (WHERE regexp_full_match({{ name | id }}, '-?[0-9.]+[eE][-+]?[0-9]+')),
        'too_fine': count(*) FILTER (WHERE regexp_full_match({{ name | id }}, '-?[0-9]+\.[0-9]{5,}')),
        'like_numbers': count(*) FILTER (WHERE regexp_full_match(trim({{ name | id }}), '-?[0-9][0-9., ''’]*([eE][-+]?[0-9]+)?')),
        'negative': count(*) FILTER (WHERE regexp_matches({{ name | id }}, '^-[0-9]*\.?[0-9]*[1-9]')),
        'missing': histogram({{ name | id }}) FILTER (WHERE list_contains($missing, {{ name | id }})),
        {% for type in types %}
        {{ type | id }}: count({{ name | id }}) - count({% include "cef/typed_column.sql" %}){% if not loop.last %},{% endif %}
        {% endfor %}
    } AS {{ name | id }}
    {% endfor %}
FROM {{ relation }}
