-- Measurements whose answers are in lists, as earlier versions stored them, with packed answers (`resources.packed`).
SELECT
    * REPLACE (
        unhex(
            CASE WHEN list_min(answers) >= -128 AND list_max(answers) < 128
                THEN '01' || array_to_string(list_transform(answers, lambda x: lpad(to_hex(x & 255), 2, '0')), '')
                ELSE '04' || array_to_string(
                    list_transform(
                        answers,
                        lambda x: lpad(to_hex(x & 255), 2, '0')
                        || lpad(to_hex((x >> 8) & 255), 2, '0')
                        || lpad(to_hex((x >> 16) & 255), 2, '0')
                        || lpad(to_hex((x >> 24) & 255), 2, '0')
                    ),
                    ''
                )
            END
        ) AS answers
    )
FROM {{ measurements }}
