#!/usr/bin/env bash
# held_out_matrices.sh PROTEAN FOLDER: generates the matrices of docs/results/tune-host-amd-avx512-held-out.yaml that
# are not of the SuiteSparse collection, FOLDER/h-*.mtx.xz, with the command PROTEAN. No machine table has them.
# Half of them are irregular: graphs, random columns, row lengths that vary, "friends" of known matrices.
set -euo pipefail
[ $# = 2 ] || { echo "usage: $0 PROTEAN FOLDER" >&2; exit 2; }
protean=$1 folder=$2
mkdir -p "$folder"
generated() {  # NAME KIND key=value...
  local name=$1 kind=$2 settings=() s
  shift 2
  for s in "$@"; do settings+=(--set "matrix.generate.$s"); done
  [ -e "$folder/$name.mtx.xz" ] || "$protean" generate "$kind" -o "$folder/$name.mtx.xz" --quiet "${settings[@]}"
}
preset() {  # NAME PRESET
  [ -e "$folder/$1.mtx.xz" ] || "$protean" generate --preset "$2" -o "$folder/$1.mtx.xz" --quiet
}
generated h-poisson-2d-230 poisson-2d n=230
generated h-poisson-3d-33 poisson-3d n=33
generated h-poisson-3d-70 poisson-3d n=70
generated h-27-point-37 poisson-3d n=37 points=27
generated h-pde-27 convection-diffusion-3d n=27
generated h-pde-52 convection-diffusion-3d n=52
generated h-anisotropic-2d-190 anisotropic-2d n=190
generated h-anisotropic-3d-42 anisotropic-3d n=42
generated h-elasticity-11 elasticity-3d n=11
generated h-elasticity-21 elasticity-3d n=21
generated h-hex-24 fem-hex n=24
generated h-hex-2-10 fem-hex n=10 degree=2
generated h-hex-3-6 fem-hex n=6 degree=3
generated h-hex-elastic-14 fem-hex n=14 physics=elasticity distortion=0.05
generated h-tet-26 fem-tet n=26
generated h-tet-elastic-13 fem-tet n=13 physics=elasticity
generated h-graph-2p2-20k graph-laplacian n=20000 degree=6 exponent=2.2 seed=5
generated h-graph-2p5-40k graph-laplacian n=40000 degree=10 exponent=2.5 seed=5
generated h-graph-3-70k graph-laplacian n=70000 degree=5 exponent=3 seed=5
generated h-graph-2p3-8k graph-laplacian n=8000 degree=30 exponent=2.3 seed=5
generated h-random-15k random-spd n=15000 degree=6 seed=5
generated h-random-35k random-spd n=35000 degree=22 seed=5
generated h-random-90k random-spd n=90000 degree=4 seed=5
generated h-banded-2-2 banded n=60000 lower=2 upper=2 seed=5
generated h-banded-20-5 banded n=15000 lower=20 upper=5 seed=5
generated h-banded-40-40 banded n=6000 lower=40 upper=40 seed=5
generated h-gamma-20 artificial n=40000 mean=20 deviation=18 distribution=gamma similarity=0.3 neighbours=0.3 seed=5
generated h-gamma-6 artificial n=120000 mean=6 deviation=6 distribution=gamma similarity=0.2 neighbours=0.2 seed=5
generated h-wide-rows artificial n=4000 mean=200 deviation=60 similarity=0.5 neighbours=1.2 bandwidth=0.2 seed=5
for friend in scircuit mac_econ_fwd500 raefsky3 bbmat conf5_4-8x8-15 mc2depi rma10 cop20k_A; do
  preset "h-like-$friend" "friends/$friend"
done
for mean in 5 20 100; do
  for skew in 0 100 1000; do
    [ "$mean" = 100 ] && [ "$skew" != 0 ] && continue  # the longest row would be longer than the matrix is wide
    for similarity in 0.05 0.95; do
      for neighbours in 0.05 1.4; do
        name=h-t1-$mean-$skew-$similarity-$neighbours
        preset "${name//./p}" "table1/small/$mean/$skew/$similarity/$neighbours"
      done
    done
  done
done
