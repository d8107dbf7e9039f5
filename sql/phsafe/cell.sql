{# The basis cell of `run` that a record belongs to; NULL if it belongs to none and is not counted. Included in
   statements, never run alone. #}
{% if run in ("PH1_num", "PH4") %}
CASE WHEN QAGE < 18 THEN 2 ELSE 3 END
{% elif run in ("PH1_denom", "PH5_denom") %}
1
{% elif run == "PH2" %}
CASE
    WHEN HHT2 IN ('01', '02') AND CPLT = '1' THEN 3
    WHEN HHT2 IN ('01', '02') AND CPLT = '2' THEN 4
    WHEN HHT2 IN ('03', '04') AND CPLT = '3' THEN 6
    WHEN HHT2 IN ('03', '04') AND CPLT = '4' THEN 7
    WHEN HHT2 = '09' THEN 9
    WHEN HHT2 IN ('10', '11', '12') THEN 10
    WHEN HHT2 = '05' THEN 12
    WHEN HHT2 IN ('06', '07', '08') THEN 13
END
{% elif run == "PH3" %}
CASE
    WHEN RELSHIP IN ('20', '21', '22', '23', '24', '34', '35', '36') THEN 2
    WHEN RELSHIP IN ('25', '26', '27')
    THEN CASE HHT2 WHEN '01' THEN 4 WHEN '03' THEN 5 WHEN '10' THEN 6 WHEN '06' THEN 7 END
    WHEN RELSHIP = '30' THEN 9
    WHEN RELSHIP IN ('28', '29', '31', '32', '33') THEN 10
END
{% elif run == "PH6" %}
CASE HHT2 WHEN '01' THEN 3 WHEN '03' THEN 8 WHEN '10' THEN 13 WHEN '06' THEN 18 END
+ CASE WHEN QAGE <= 3 THEN 0 WHEN QAGE <= 5 THEN 1 WHEN QAGE <= 11 THEN 2 WHEN QAGE <= 17 THEN 3 END
{% elif run == "PH7" %}
CASE TEN WHEN '1' THEN 2 WHEN '2' THEN 3 WHEN '3' THEN 4 WHEN '4' THEN 4 END
{% elif run == "PH8_denom" %}
CASE TEN WHEN '1' THEN 2 WHEN '2' THEN 2 WHEN '3' THEN 3 WHEN '4' THEN 3 END
{% endif %}
