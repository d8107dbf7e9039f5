SELECT draw_id, swapped_version FROM {{ table }}
