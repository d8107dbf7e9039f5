SELECT $version AS version
