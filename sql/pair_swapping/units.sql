-- The units after the exchange, without the keys of the records.
SELECT unit, {{ variables | ids }} FROM {{ moved }} ORDER BY unit
