-- By record, the number of its cell and 128 bits that no other record has: a single whole number itself, or else the
-- first half of the SHA-256 digest of the key's values, each as length-prefixed text.
{% if whole %}
SELECT {% include "table_builder/cell.sql" %} AS cell, 0::UBIGINT AS identifier_upper,
    (found.{{ record[0] | id }}::HUGEINT + 9223372036854775808)::UBIGINT AS identifier_lower
FROM ({% include "table_builder/records.sql" %}) AS found
{% else %}
SELECT {% include "table_builder/cell.sql" %} AS cell, ('0x' || digest[1:16])::UBIGINT AS identifier_upper,
    ('0x' || digest[17:32])::UBIGINT AS identifier_lower
FROM (
    SELECT {{ columns | ids }}, sha256(concat(
        {% for column in record %}
        strlen({{ column | id }}::VARCHAR), ':', {{ column | id }}::VARCHAR
        {% if not loop.last %}
        ,
        {% endif %}
        {% endfor %}
    )) AS digest
    FROM ({% include "table_builder/records.sql" %})
) AS found
{% endif %}
{% include "table_builder/steps_of_categories.sql" %}
