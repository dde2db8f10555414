#!/usr/bin/env bash
# Runs a GoogleTest program as COUNT processes, each with its share of the tests. Fails when one fails.
# Usage: tools/run_shards.sh COUNT PROGRAM [options]
set -euo pipefail
count=$1
shift
pids=()
for ((index = 0; index < count; index++)); do
  GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$index "$@" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit "$status"
