{# The condition for a person to be in the universe of `run`, before truncation and join. Included in statements, never
   run alone. #}
{% if run in ("PH1_num", "PH2", "PH7") %}
PERSON_RTYPE = '3'
{% elif run == "PH3" %}
PERSON_RTYPE = '3' AND QAGE < 18
{% elif run == "PH4" %}
RELSHIP IN ('20', '21', '23', '25', '26', '27', '28', '29', '30', '31', '32', '33')
{% elif run == "PH6" %}
QAGE < 18 AND RELSHIP IN ('25', '26', '27')
{% endif %}
