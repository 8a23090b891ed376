#!/usr/bin/env bash
# The tables and figures of five papers on a GPU, a paper at a time, and one page of all.
#
#   research/reproduce/on_a_gpu.sh PROGRAM MATRICES OUTPUT [PAPER...]     PAPER: s0 to s4; none: all
#
# PROGRAM is the command `protean` of a build with CUDA. MATRICES is a folder with matrices of the SuiteSparse
# collection; size quick reads bcsstk17, af23560, mhd4800a, G2_circuit, wave and bcsstk29 (as NAME.mtx.xz). OUTPUT gets
# ID.json, ID.csv, index.html and README.md. A later call adds papers to the same folder, so that they can be made in
# several short runs. SIZE (quick) and LIMIT (240 seconds a paper) in the environment change what they say. A paper that
# does not end in time keeps what it has done, and the exit code is 1.
set -u
[ $# -ge 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
program=$1 matrices=$2 output=$3
shift 3
[ $# -gt 0 ] || set -- s0 s1 s2 s3 s4
: "${PROTEAN_COMMIT:=$(git -C "$(dirname "$0")" describe --always 2>/dev/null)}"
export PROTEAN_COMMIT
failed=0
for paper in "$@"; do
  before=$SECONDS
  timeout --signal=INT --kill-after=30 "${LIMIT:-240}" "$program" reproduce "$paper" --size "${SIZE:-quick}" \
    --space device --matrices "$matrices" -o "$output" --quiet || failed=1
  echo "$paper: $((SECONDS - before)) s"
done
"$program" reproduce --from "$output" -o "$output" --quiet || failed=1
exit $failed
