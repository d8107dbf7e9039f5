ATTACH {{ path }} AS {{ alias }} (READ_ONLY)
