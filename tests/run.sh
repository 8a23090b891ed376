#!/bin/sh
# run.sh [BUILD_FOLDER [OPTION...]]: runs all tests of a build folder and prints what passed, failed and was skipped,
# and why. The options are those of tests/summary.py.
set -u
build=$(cd "${1:-build/cpu-release}" && pwd) || exit 1
[ $# = 0 ] || shift
rm -rf "$build/test-results"
mkdir -p "$build/test-results"
status=0
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" --output-junit "$build/test-results/ctest.junit" || status=$?
python3 "$(dirname "$0")/summary.py" "$build/test-results" "$build/test-results/ctest.junit" "$@" || status=$?
exit $status
