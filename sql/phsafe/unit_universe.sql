{# The condition for a unit to be in the universe of `run`; true if the run does not restrict units. For runs that count
   persons, it applies before repeated units are dropped and before the join. Included in statements, never run alone. #}
{% if run in ("PH1_denom", "PH8_denom") %}
RTYPE = '2' AND HHT <> '0'
{% elif run in ("PH4", "PH5_denom") %}
HHT IN ('1', '2', '3')
{% else %}
true
{% endif %}
