{# The text `name` converted to `type`; NULL if it is ill-typed. Included in statements, never run alone. #}
{% if type == "integer" %}
CASE WHEN regexp_full_match({{ name | id }}, '-?[0-9]{1,18}') THEN TRY_CAST({{ name | id }} AS BIGINT) END
{% elif type == "decimal" %}
CASE
    WHEN regexp_full_match({{ name | id }}, '-?[0-9]{1,14}(\.[0-9]{1,4})?')
    THEN TRY_CAST({{ name | id }} AS DECIMAL(18, 4))
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
