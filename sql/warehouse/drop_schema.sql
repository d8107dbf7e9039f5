DROP SCHEMA IF EXISTS {{ zone }}.{{ schema }} CASCADE
