-- The columns of a source as the CEF has them: converted to their types, and recoded as declared.
SELECT
    {% for name in columns %}
    recoded_{{ loop.index0 }} AS {{ name | id }},
    {% endfor %}
FROM ({% include "cef/recoded.sql" %})
