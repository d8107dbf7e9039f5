-- All rows of a table in the order in which they are stored. Columns that are neither integers nor texts become texts.
SELECT
    {% for column, plain in columns.items() %}
    {% if not loop.first %}, {% endif %}{{ column | id }}{% if not plain %}::VARCHAR{% endif %}

    {% endfor %}
FROM {{ table }}
