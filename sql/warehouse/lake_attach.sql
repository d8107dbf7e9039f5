ATTACH {{ source }} AS {{ alias }} (
    DATA_PATH {{ data }},
    DATA_INLINING_ROW_LIMIT 0
    {% if encrypted %}
    , ENCRYPTED
    {% endif %}
    {% if read_only %}
    , READ_ONLY
    {% endif %}
    {% if snapshot >= 0 %}
    , SNAPSHOT_VERSION {{ snapshot }}
    {% endif %}
)
