SET allowed_directories = {{ folders }};
SET enable_external_access = false;
SET lock_configuration = true
