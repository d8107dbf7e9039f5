-- The number of rows by which two tables differ as multisets.
SELECT
    (SELECT count(*) FROM (SELECT {{ columns | ids }} FROM {{ first }} EXCEPT ALL SELECT {{ columns | ids }} FROM {{ second }}))
    + (SELECT count(*) FROM (SELECT {{ columns | ids }} FROM {{ second }} EXCEPT ALL SELECT {{ columns | ids }} FROM {{ first }}))
