#!/bin/sh
# Serve the code location. Its runs are processes beside it, so when it starts none is left of those that are said to go
# on. They are ended as failures, and the queue launches them again. Not for Kubernetes, where runs have pods of their own.
set -eu
# Another copy would end runs that go on, and the queue would launch them twice. The lock is held until the server ends.
mkdir -p "$STIRRED_HOME"
exec 9>>"$STIRRED_HOME/code-location.lock"
if ! flock -w 5 9; then
    echo "another code location serves $STIRRED_HOME, on this node or another one; nothing was started. End it first" >&2
    exit 1
fi
lost=$(stirred unblock --begun)
dagster api grpc --host "${STIRRED_CODE_LISTENS:-127.0.0.1}" --port "$STIRRED_CODE_PORT" \
    --module-name orchestration.definitions --location-name stirred &
server=$!
trap 'kill -TERM $server; wait $server' TERM INT
if [ -n "$lost" ]; then
    # Dagster gives a failed run up if its daemon cannot reach the code location, so both must be ready.
    until dagster api grpc-health-check -p "$STIRRED_CODE_PORT" 2>/dev/null; do
        kill -0 $server
        sleep 1
    done
    sleep 30
    stirred unblock --lost $lost
fi
wait $server
