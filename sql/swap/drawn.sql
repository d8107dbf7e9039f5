SELECT draw_id FROM {{ table }}
