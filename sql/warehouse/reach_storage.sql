-- DuckDB reads the keys and the region of S3 from the environment. Nothing but S3 is reached. The settings are global,
-- because DuckLake lists files by a connection of its own.
SET disabled_filesystems = 'HTTPFileSystem,HuggingFaceFileSystem';
{% if given %}
SET GLOBAL s3_endpoint = {{ host }};
SET GLOBAL s3_use_ssl = {% if encrypted %} true {% else %} false {% endif %};
SET GLOBAL s3_url_style = 'path'
{% endif %}
