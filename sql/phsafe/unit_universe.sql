{# Which units `run` is about: for runs that count persons, before repeated units are dropped and before the join, and
   all of them where the run says nothing else. Included in statements, never run alone. #}
{% if run in ("PH1_denom", "PH8_denom") %}
RTYPE = '2' AND HHT <> '0'
{% elif run in ("PH4", "PH5_denom") %}
HHT IN ('1', '2', '3')
{% else %}
true
{% endif %}
