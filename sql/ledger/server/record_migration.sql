INSERT INTO stirred.migrations (number, name) VALUES (%(number)s, %(name)s)
