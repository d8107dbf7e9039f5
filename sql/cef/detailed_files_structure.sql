-- The offenders of each rule of SafeTab's files, in one row. NULLs are left to the rule against them.
SELECT *
FROM (SELECT {% with prefix = "" %}{% include "cef/race_codes_after_null.sql" %}{% endwith %} FROM {{ persons }})
{% if households is defined %}
CROSS JOIN (
    SELECT {% with prefix = "householder_" %}{% include "cef/race_codes_after_null.sql" %}{% endwith %} FROM {{ households }}
)
{% endif %}
