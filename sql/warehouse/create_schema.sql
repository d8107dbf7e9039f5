CREATE SCHEMA IF NOT EXISTS {{ zone }}.{{ schema }}
