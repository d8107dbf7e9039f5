-- From here on, the instance reaches these folders and files alone, and none of its settings can be changed.
SET allowed_directories = {{ folders }};
SET allowed_paths = {{ paths }};
SET enable_external_access = false;
SET lock_configuration = true
