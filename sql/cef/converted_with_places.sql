-- Converted records with their columns from the geography file. If that file has two rows for a record, which is reported as
-- an error, one of them is taken, so that no record is duplicated.
WITH
record AS (
    {% include "cef/converted.sql" %}

),
place AS (
    SELECT{% if repeated %} DISTINCT ON ({{ key | id }}){% endif %} * FROM {{ places }}
)
SELECT
    {% for name in stored %}
    {% if name in located %}place{% else %}record{% endif %}.{{ name | id }},
    {% endfor %}
FROM record
LEFT JOIN place ON place.{{ key | id }} = record.{{ key | id }}
