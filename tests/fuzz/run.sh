#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a short while: run.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v clang++ >/dev/null; then
  echo "clang++ is missing; on Debian: apt-get install clang libclang-rt-14-dev libomp-dev" >&2
  exit 1
fi
cmake --preset fuzz -DPROTEAN_FUZZ_SECONDS="${1:-10}"
cmake --build --preset fuzz --target fuzz_targets
ctest --preset fuzz -L fuzz
