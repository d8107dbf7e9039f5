-- Keys that several units of the states bear, with how many units of each run's universe bear them.
{% include "phsafe/units_by_key.sql" %}

HAVING count(*) > 1
