-- The number of a cell of the inner table, from the steps of its categories. A record outside the domains has none.
(
    {% for domain in domains %}
    d{{ loop.index }}.step{% if not loop.last %} +{% endif %}

    {% endfor %}
)::BIGINT
