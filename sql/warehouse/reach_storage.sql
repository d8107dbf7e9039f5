-- DuckDB reads the keys and the region of S3 from the environment. Nothing but S3 is reached.
SET disabled_filesystems = 'HTTPFileSystem,HuggingFaceFileSystem';
{% if given %}
SET s3_endpoint = {{ host }};
SET s3_use_ssl = {{ encrypted }};
SET s3_url_style = 'path'
{% endif %}
