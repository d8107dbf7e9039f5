-- The number of records, and for each column of texts: values, different values, values with a leading zero, values that
-- are not only digits, the shortest and longest value, the least and greatest whole number, and, for each type, the
-- values that are not of it. All of it is confidential.
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
        'lowest': min(TRY_CAST({{ name | id }} AS BIGINT)),
        'highest': max(TRY_CAST({{ name | id }} AS BIGINT)),
        {% for type in types %}
        {{ type | id }}: count({{ name | id }}) - count({% include "cef/typed_column.sql" %}){% if not loop.last %},{% endif %}
        {% endfor %}
    } AS {{ name | id }}
    {% endfor %}
FROM ({{ relation }})
