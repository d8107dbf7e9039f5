-- The finest areas of the units of the states. Units of one area lie in the same regions of every type.
SELECT (row_number() OVER ())::INTEGER AS area, *
FROM (
    SELECT DISTINCT {{ columns | ids }}
    FROM {{ units }}
    WHERE TABBLKST IN (SELECT unnest($states))
)
