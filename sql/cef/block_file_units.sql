-- GRF-C: the blocks of a census in the production layout, each of which has a unit.
SELECT DISTINCT {{ columns | ids }} FROM {{ units }}
