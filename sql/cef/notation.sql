-- For each column of texts: the number of values, and of those in each form, by regular expression. Each different text is
-- looked at once.
SELECT
    {% for name in columns %}
    (
        SELECT {
            'present': coalesce(sum(rows), 0)::BIGINT,
            {% for form, pattern in forms.items() %}
            {{ form | id }}: coalesce(sum(rows) FILTER (WHERE regexp_full_match(text, {{ pattern }})), 0)::BIGINT{% if not loop.last %},{% endif %}

            {% endfor %}
        }
        FROM ({% include "cef/different_texts.sql" %})
    ) AS {{ name | id }},
    {% endfor %}
