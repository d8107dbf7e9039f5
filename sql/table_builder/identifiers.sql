-- By record, the number of its cell and 128 bits that no other record has: a key that is a whole number itself, or else
-- the first half of the SHA-256 digest of the key as length-prefixed text, under a name that no variable has.
{% if whole %}
SELECT {% include "table_builder/cell.sql" %} AS cell, 0::UBIGINT AS identifier_upper,
    (source.{{ record | id }}::HUGEINT + 9223372036854775808)::UBIGINT AS identifier_lower
FROM ({% include "table_builder/records.sql" %}) AS source
{% else %}
SELECT {% include "table_builder/cell.sql" %} AS cell, ('0x' || measured[1:16])::UBIGINT AS identifier_upper,
    ('0x' || measured[17:32])::UBIGINT AS identifier_lower
FROM (
    SELECT {{ columns | ids }}, sha256(concat(strlen({{ record | id }}::VARCHAR), ':', {{ record | id }}::VARCHAR)) AS measured
    FROM ({% include "table_builder/records.sql" %})
) AS source
{% endif %}
{% include "table_builder/steps_of_categories.sql" %}
