INSERT INTO {{ table }} FROM {{ rows }}
