DESCRIBE {{ table }}
