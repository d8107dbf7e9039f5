-- The offenders of each rule of SafeTab's files, in one row. NULLs are left to the rule against them.
SELECT *
FROM
{% if persons is defined %}
(SELECT {% with prefix = "" %}{% include "cef/race_codes_after_null.sql" %}{% endwith %} FROM {{ persons }})
{% endif %}
{% if persons is defined and households is defined %}CROSS JOIN{% endif %}
{% if households is defined %}
(
    SELECT {% with prefix = "householder_" %}{% include "cef/race_codes_after_null.sql" %}{% endwith %} FROM {{ households }}
)
{% endif %}
