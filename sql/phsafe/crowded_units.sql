-- Keys of units in which some run's universe has more persons than the run's threshold: the only ones to truncate.
SELECT MAFID
FROM {{ persons }}
GROUP BY MAFID
HAVING
    {% for run, threshold in truncation.items() %}
    {% if not loop.first %}OR {% endif %}count(*) FILTER (
        {% include "phsafe/person_universe.sql" %}
    ) > {{ threshold }}
    {% endfor %}
