{# The place of a record, as columns of its code or as the code. Included in statements, never run alone. #}
{% for name, first, length in place_columns %}
substr(place.geoid, {{ first }}, {{ length }}) AS {{ name | id }},
{% else %}
place.geoid,
{% endfor %}

