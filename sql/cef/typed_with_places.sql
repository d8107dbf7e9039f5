-- Typed records with what the geography file says of each. Where it tells of one twice, which is refused, one of the
-- two is taken, so that no record is doubled.
WITH
record AS (
    {% include "cef/typed.sql" %}

),
place AS (
    SELECT{% if repeated %} DISTINCT ON ({{ key | id }}){% endif %} * FROM {{ places }}
)
SELECT
    {% for name in stored %}
    {% if name in located %}place{% else %}record{% endif %}.{{ name | id }}{% if not loop.last %},{% endif %}

    {% endfor %}
FROM record
LEFT JOIN place ON place.{{ key | id }} = record.{{ key | id }}
