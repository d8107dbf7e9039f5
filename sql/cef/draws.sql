{# Draws in [0, 1) by name, each from the next 16 bits of a `word` of 64. Columns of a list that goes on, included in
   statements, never run alone. #}
{% for name in names %}
(({{ word | id }} >> {{ 16 * loop.index0 }}) & 65535) / 65536 AS {{ (name ~ "_draw") | id }},
{% endfor %}
