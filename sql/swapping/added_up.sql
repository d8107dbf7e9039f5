-- The records of all partitions by their values.
WITH parts AS (
    {% include "warehouse/united.sql" %}
)
{% with records = "parts" | id %}{% include "swapping/counted.sql" %}{% endwith %}
