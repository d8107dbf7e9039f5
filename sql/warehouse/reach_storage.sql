-- DuckDB reads the keys and the region of S3 from the environment. Nothing but S3 is reached. The settings are global,
-- because DuckLake lists files by a connection of its own.
-- A request that is not answered is sent again after 0.2, 0.4, 0.8, … seconds, for 25 seconds.
SET disabled_filesystems = 'HTTPFileSystem,HuggingFaceFileSystem';
SET GLOBAL http_retries = {{ retries }};
SET GLOBAL http_retry_wait_ms = 200;
SET GLOBAL http_retry_backoff = 2;
SET GLOBAL ca_cert_file = {{ authorities }};
{% if given %}
SET GLOBAL s3_endpoint = {{ host }};
SET GLOBAL s3_use_ssl = {% if encrypted %} true {% else %} false {% endif %};
SET GLOBAL s3_url_style = 'path'
{% endif %}
