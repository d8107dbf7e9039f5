SELECT
    {% for name, source in columns.items() %}
    {% if name in whole %}
    -- NaN is greater than any number.
    CASE WHEN {{ source | id }} = trunc({{ source | id }}) AND abs({{ source | id }}) < {{ whole[name] }}
        THEN {{ source | id }}::BIGINT::VARCHAR ELSE {{ source | id }}::VARCHAR
    END AS {{ name | id }},
    {% elif name in dates %}
    regexp_replace({{ source | id }}::VARCHAR, ' 00:00:00$', '') AS {{ name | id }},
    {% else %}
    {{ source | id }}{% if not typed %}::VARCHAR{% endif %} AS {{ name | id }},
    {% endif %}
    {% endfor %}
FROM ({{ relation }})
