#!/bin/sh
# Runs all tests of a build folder and says what passed, failed and was skipped, and why.
set -u
build=${1:-build/cpu-release}
rm -rf "$build/test-results"
status=0
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" || status=$?
python3 "$(dirname "$0")/summary.py" "$build/test-results" "$build/Testing/Temporary/LastTest.log" || status=$?
exit $status
