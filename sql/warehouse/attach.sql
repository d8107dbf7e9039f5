ATTACH {{ path }} AS {{ alias }}
