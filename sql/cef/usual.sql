-- Texts of a CSV file as all files have them, given the types of those columns that are numbers or dates.
SELECT
    {% for name, kind in columns.items() %}
    {% with position = name %}{% include "cef/as_usual.sql" %}{% endwith %}
    AS {{ name | id }},
    {% endfor %}
FROM {{ relation }}
