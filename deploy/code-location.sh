#!/bin/sh
# Serve the code location. Its runs are processes beside it, so at its start none is left of those that are said to go
# on: they are failures, and the queue launches them again. Not for Kubernetes, where runs have pods of their own.
set -eu
stirred unblock --lost
exec dagster api grpc --host "${STIRRED_CODE_LISTENS:-127.0.0.1}" --port "${STIRRED_CODE_PORT:-4000}" \
    --module-name orchestration.definitions --location-name stirred
