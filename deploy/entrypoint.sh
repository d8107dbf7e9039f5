#!/bin/sh
# Read the secret variables, such as the keys of S3, from the file that STIRRED_SECRETS names, and run the command.
set -eu
if [ -n "${STIRRED_SECRETS:-}" ]; then
    set -a
    . "$STIRRED_SECRETS"
    set +a
fi
exec "$@"
