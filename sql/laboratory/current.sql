-- The measures that were made of what is declared and stored now: of each point, its digest.
FROM {{ measures }} WHERE made_of IN (SELECT unnest($digests))
