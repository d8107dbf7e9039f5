-- How many cells a product has if those without a record are listed.
SELECT {% for column in columns %}{% if not loop.first %} * {% endif %}count(DISTINCT {{ column | id }})::DOUBLE{% endfor %}

FROM {{ records }}
