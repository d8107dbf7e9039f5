-- The set of members of each combination of codes; combinations that are in no group are left out.
SELECT answer, list_sort(list(member)) AS members
FROM {{ answer_members }}
GROUP BY answer
