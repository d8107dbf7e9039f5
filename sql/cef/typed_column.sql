{# The text `name` converted to `type`; NULL if it is ill-typed. A `rounded` one is a decimal. Included in statements, never run alone. #}
{% if type == "integer" %}
CASE WHEN regexp_full_match({{ name | id }}, '-?[0-9]{1,18}') THEN TRY_CAST({{ name | id }} AS BIGINT) END
{% elif type == "decimal" %}
CASE
    WHEN regexp_full_match({{ name | id }}, '-?([0-9]{1,14}(\.[0-9]{1,4})?|\.[0-9]{1,4})')
    THEN TRY_CAST({{ name | id }} AS DECIMAL(18, 4))
END
{% elif type == "rounded" %}
-- Of texts in these notations, DuckDB rounds the digits themselves, half away from 0; of further ones, not always.
CASE
    WHEN regexp_full_match({{ name | id }}, '-?([0-9]{1,14}(\.[0-9]+)?|\.[0-9]+)|-?[1-9](\.[0-9]+)?[eE]([-+]?0?[0-5]|\+?(0?[6-9]|1[0-2]))')
    THEN TRY_CAST({{ name | id }} AS DECIMAL(18, 4))
    WHEN regexp_full_match(
        {{ name | id }}, '-?0(\.0+)?[eE][-+]?[0-9]{1,3}|-?[1-9](\.[0-9]+)?[eE]-(0?[6-9]|[1-9][0-9]{1,2})'
    ) THEN 0
END
{% elif type == "date" %}
CASE
    -- DuckDB has a year 0000, but ISO 8601 as exchanged and Python's dates begin with 0001.
    WHEN regexp_full_match({{ name | id }}, '[0-9]{4}-[0-9]{2}-[0-9]{2}') AND NOT starts_with({{ name | id }}, '0000')
    THEN TRY_CAST({{ name | id }} AS DATE)
END
{% elif type == "boolean" %}
CASE {{ name | id }} WHEN 'true' THEN true WHEN 'false' THEN false END
{% elif type == "string" %}
CASE WHEN NOT contains({{ name | id }}, chr(0)) THEN {{ name | id }} END
{% endif %}
