FROM {{ table }} ORDER BY {{ stratum | ids }}, random()
