#!/usr/bin/env bash
# A long run of all fuzz targets in parallel, on this machine or on one without compilers and packages.
#
#   campaign.sh pack FOLDER
#     copies the programs that `make fuzz` has built, the libraries that they need, seeds and this script into FOLDER,
#     which can be carried to another machine (x86-64, with a glibc as new as here)
#   campaign.sh SECONDS OUT [TARGET...]
#     runs there, or in the sources: at least one process for each target, one for each processor in all. A target that
#     crashes is begun again until the time is over. A target that is named twice gets twice the processors.
#
# LONGEST=N in the environment: inputs of at most this many bytes (4096). Short ones run several times as fast.
#
# OUT/counts.md has a line for each target: inputs, seconds, inputs a second, crashes, commit. OUT/TARGET has the inputs
# that reached something new, OUT/crashes the inputs that broke a promise. Exit code 1: there are some.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Where the programs lie: beside this script in a packed folder, else in the build folder.
programs=$here corpus=$here/corpus
[ -e "$here/fuzz_readers" ] || programs=$here/../../build/fuzz/tests/fuzz
if [ ! -e "$programs/fuzz_readers" ]; then
  echo "campaign.sh: there is no fuzz_readers in $here; build it first: make fuzz" >&2
  exit 2
fi

if [ "${1:-}" = pack ]; then
  folder=${2:?campaign.sh pack FOLDER}
  mkdir -p "$folder"
  for program in fuzz_readers fuzz_library; do
    [ -e "$programs/$program" ] || continue
    strip -o "$folder/$program" "$programs/$program"
    # All libraries except glibc's, which belong to the loader of the machine.
    ldd "$programs/$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
      grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv)\.so' | while read -r library; do
      cp -Lu "$library" "$folder/"
    done
  done
  for link in "$programs"/fuzz_*; do
    if [ -L "$link" ] && [ -e "$folder/$(readlink "$link")" ]; then cp -P "$link" "$folder/"; fi
  done
  cp -r "$corpus" "$here/campaign.sh" "$folder/"
  git -C "$here" describe --always --abbrev=7 --dirty >"$folder/commit"
  ls -l "$folder"
  exit 0
fi

seconds=${1:?campaign.sh SECONDS OUT [TARGET...]} out=${2:?campaign.sh SECONDS OUT [TARGET...]}
shift 2
case "$seconds" in
  '' | *[!0-9]*)
    echo "campaign.sh: SECONDS is '$seconds'; it must be a whole number" >&2
    exit 2
    ;;
esac
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  # The slow ones first: they get the processors that are left.
  for name in c_calls problem exhibit matrix_market compressed vectors pbin gmsh yaml_tree machine; do
    [ -e "$programs/fuzz_$name" ] && targets+=("$name")
  done
fi
commit=$(cat "$here/commit" 2>/dev/null || git -C "$here" describe --always --abbrev=7 --dirty)
mkdir -p "$out/crashes" "$out/logs"
out=$(cd "$out" && pwd)

# One process of a target, begun again after each crash.
worker() {
  local target=$1 number=$2 end=$((SECONDS + seconds)) round=0
  while [ "$SECONDS" -lt "$end" ] && [ "$round" -lt 50 ]; do
    round=$((round + 1))
    # Without -entropic=0 the fuzzer counts features for two thirds of the time of the larger programs.
    LD_LIBRARY_PATH="$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" OMP_NUM_THREADS=1 "$programs/fuzz_$target" \
      -max_total_time=$((end - SECONDS)) -max_len="${LONGEST:-4096}" -entropic=0 -timeout=10 -rss_limit_mb=2048 \
      -print_final_stats=1 \
      -artifact_prefix="$out/crashes/$target-" "$out/$target" "$corpus/$target" \
      >"$out/logs/$target-$number-$round.log" 2>&1 && break
  done
}

processes=$(nproc)
[ "$processes" -ge ${#targets[@]} ] || processes=${#targets[@]}
began=$SECONDS
for ((number = 0; number < processes; number++)); do
  target=${targets[number % ${#targets[@]}]}
  mkdir -p "$out/$target"
  worker "$target" "$number" &
done
wait
took=$((SECONDS - began))

{
  echo "| target | inputs | seconds | inputs a second | processes | crashes, hangs, leaks | commit |"
  echo "|---|---|---|---|---|---|---|"
  printf '%s\n' "${targets[@]}" | awk '!seen[$0]++' | while read -r target; do
    inputs=$(cat "$out/logs/$target"-*.log | awk '/number_of_executed_units/ {sum += $2} END {printf "%d", sum}')
    workers=$(find "$out/logs" -name "$target-*-1.log" | wc -l)
    crashes=$(find "$out/crashes" -name "$target-*" | wc -l)
    echo "| $target | $inputs | $took | $((inputs / (took > 0 ? took : 1))) | $workers | $crashes | $commit |"
  done
} | tee "$out/counts.md"
[ -z "$(ls -A "$out/crashes")" ]
