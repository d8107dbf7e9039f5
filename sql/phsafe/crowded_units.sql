-- The keys of units with more persons in some run's universe than the run's threshold: only these are truncated.
SELECT MAFID
FROM {{ persons }}
GROUP BY MAFID
HAVING
    {% for run, threshold in truncation.items() %}
    {% if not loop.first %}OR {% endif %}count(*) FILTER (
        {% include "phsafe/person_universe.sql" %}
    ) > {{ threshold }}
    {% endfor %}
