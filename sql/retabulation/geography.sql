-- The place of every block in each geography: joined from columns of the units, or as listed in a file.
SELECT level, geoid, block
FROM {{ listed }}
{% for columns in joined %}
UNION
SELECT $level_{{ loop.index0 }} AS level, {% with columns = columns %}{% include "topdown/code.sql" %}{% endwith %} AS geoid, {% with columns = block %}{% include "topdown/code.sql" %}{% endwith %} AS block
FROM {{ units }}
{% endfor %}
ORDER BY ALL
