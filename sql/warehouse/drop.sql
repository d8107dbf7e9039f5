DROP {% if view %}VIEW{% else %}TABLE{% endif %} {{ table }}
