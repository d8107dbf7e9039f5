{# The iterations that a record with the codes `race` and `hispanic` belongs to, at most one of each set. Included in
   statements, never run alone. #}
[
    '*',
    CASE
        WHEN race = '01' THEN 'A'
        WHEN race = '02' THEN 'B'
        WHEN race = '03' THEN 'C'
        WHEN race = '04' THEN 'D'
        WHEN race = '05' THEN 'E'
        WHEN race = '06' THEN 'F'
        WHEN race BETWEEN '07' AND '63' THEN 'G'
    END,
    CASE
        WHEN hispanic = '2' THEN 'H'
        WHEN hispanic = '1' AND race = '01' THEN 'I'
    END
]
