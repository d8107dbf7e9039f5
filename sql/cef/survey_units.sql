{% include "cef/survey_plan.sql" %}
SELECT {{ columns | ids }}
FROM (
    SELECT
        household,
        lpad(fips::VARCHAR, 2, '0') AS state,
        CASE WHEN low_income THEN 'low_income' ELSE 'other' END AS sampling_stratum,
        CASE WHEN owned THEN 'owned' ELSE 'rented' END AS tenure,
        persons AS household_size,
        design_weight
    FROM composed
)
