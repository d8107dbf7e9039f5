FROM {{ table }}
ORDER BY draw_order
