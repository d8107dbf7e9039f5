-- Rows that two tables do not have equally often.
SELECT
    (SELECT count(*) FROM (SELECT {{ columns | ids }} FROM {{ first }} EXCEPT ALL SELECT {{ columns | ids }} FROM {{ second }}))
    + (SELECT count(*) FROM (SELECT {{ columns | ids }} FROM {{ second }} EXCEPT ALL SELECT {{ columns | ids }} FROM {{ first }}))
