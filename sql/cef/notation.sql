-- For each column of texts: the number of values, and of those in each form, by regular expression.
SELECT
    {% for name in columns %}
    {
        'present': count({{ name | id }}),
        {% for form, pattern in forms.items() %}
        {{ form | id }}: count(*) FILTER (WHERE regexp_full_match({{ name | id }}, {{ pattern }})){% if not loop.last %},{% endif %}

        {% endfor %}
    } AS {{ name | id }},
    {% endfor %}
FROM {{ relation }}
