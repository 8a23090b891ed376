#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a short while, two at a time: run.sh [SECONDS [readers|all [SEED]]]
# With the same seed each run begins with the same inputs; without one, or with 0, each with others.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10} targets=${2:-all} seed=${3:-0}
case "$targets" in
  readers) programs=fuzz_readers ;;
  all) programs="fuzz_readers fuzz_library" ;;
  *) echo "run.sh: TARGETS is '$targets'; it must be readers or all" >&2; exit 2 ;;
esac
if ! command -v clang++ >/dev/null; then
  echo "clang++ is missing; on Debian: apt-get install clang libclang-rt-14-dev libomp-dev" >&2
  exit 1
fi
cmake --preset fuzz -DPROTEAN_FUZZ_SECONDS="$seconds" -DPROTEAN_FUZZ_SEED="$seed"
# shellcheck disable=SC2086
cmake --build --preset fuzz --target $programs
ctest --preset fuzz -j 2 -L "^(${programs// /|})\$"
