{# The text in a column of a CSV file as all files have it: numbers with a decimal point, dates as in ISO 8601. `kind` is
   the column's type, or `any` if the column is not declared. A number or date that a file in this dialect does not have
   becomes a text that is not of the type; any other text stays. Included in statements, never run alone. #}
{% set comma, dated = decimal_comma and kind == "decimal", dates.text and kind in ("date", "any") %}
{% if comma or dated %}
CASE
    {% if comma %}
    WHEN regexp_full_match({{ position | id }}, '[-+0-9eE.,]*[0-9][-+0-9eE.,]*') THEN translate({{ position | id }}, ',.', '.,')
    {% endif %}
    {% if dated %}
    WHEN regexp_full_match({{ position | id }}, {{ dates }})
    THEN coalesce(try_strptime({{ position | id }}, {{ format }})::DATE::VARCHAR, {{ position | id }})
    {% if kind == "date" %}
    WHEN regexp_full_match({{ position | id }}, '[0-9]{4}-[0-9]{2}-[0-9]{2}') THEN {{ position | id }} || ' in ISO 8601'
    {% endif %}
    {% endif %}
    ELSE {{ position | id }}
END
{% else %}
{{ position | id }}
{% endif %}
