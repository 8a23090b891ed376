#!/bin/sh
# run.sh [BUILD_FOLDER [--label LABEL] [OPTION...]]: runs all tests of a build folder, or the tests with a label, and
# prints what passed, failed and was skipped, and why. LABEL may be several: 'apps|systems'. The options are the options
# of tests/summary.py.
set -u
build=$(cd "${1:-build/cpu-release}" && pwd) || exit 1
[ $# = 0 ] || shift
label=
if [ "${1:-}" = --label ]; then
  label="^($2)\$"
  shift 2
fi
rm -rf "$build/test-results"
mkdir -p "$build/test-results"
status=0
ctest --test-dir "$build" --output-on-failure ${label:+--label-regex} ${label:+"$label"} -j "$(nproc)" \
  --output-junit "$build/test-results/ctest.junit" || status=$?
python3 "$(dirname "$0")/summary.py" "$build/test-results" "$build/test-results/ctest.junit" "$@" || status=$?
exit $status
