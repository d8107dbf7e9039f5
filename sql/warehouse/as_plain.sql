{# Columns of which those that are neither integers nor texts become texts. Included in statements, never run alone. #}
{% for column, plain in columns.items() %}{{ column | id }}{% if not plain %}::VARCHAR{% endif %}{% if not loop.last %}, {% endif %}{% endfor %}

