-- The keys shared by several units of the states, with the number of such units in each run's universe.
{% include "phsafe/units_by_key.sql" %}

HAVING count(*) > 1
