#!/usr/bin/env bash
# held_out_matrices.sh PROTEAN FOLDER SET: generates matrices in FOLDER with the command PROTEAN. A file that is there
# is kept.
#
#   host          h-*.mtx.xz, of which no machine table has any: they only judge what is chosen on a host
#   gpu-training  t-*.pbin, of a size that fills a GPU: those of the built-in table of GPUs
#   gpu-held-out  d-*.pbin, the same kinds with other sizes, parameters and seeds: they only judge what is chosen
#
# Half of each set are irregular: graphs, random columns, row lengths that vary, "friends" of known matrices.
set -euo pipefail
[ $# = 3 ] || { echo "usage: $0 PROTEAN FOLDER host|gpu-training|gpu-held-out" >&2; exit 2; }
protean=$1 folder=$2 set=$3
case "$set" in
  host) first=h ending=mtx.xz ;;
  gpu-training) first=t ending=pbin ;;
  gpu-held-out) first=d ending=pbin ;;
  *) echo "$0: the set is '$set'; it must be host, gpu-training or gpu-held-out" >&2; exit 2 ;;
esac
mkdir -p "$folder"
run() {  # NAME words of the command...
  local file=$folder/$first-$1.$ending
  shift
  [ -e "$file" ] || echo "OMP_NUM_THREADS=2 $protean generate $* -o $file --quiet"
}
generated() {  # NAME KIND key=value...
  local name=$1 kind=$2 settings=() s
  shift 2
  for s in "$@"; do settings+=("--set matrix.generate.$s"); done
  run "$name" "$kind" "${settings[@]}"
}
each() {  # KIND KEY VALUES OTHERS...: one matrix for each value
  local kind=$1 key=$2 values=$3 value
  shift 3
  for value in $values; do
    local name=$kind-$value${*:+-$*}
    generated "$(tr ' ' - <<<"$name" | tr -d =.)" "$kind" "$key=$value" "$@"
  done
}
host() {
  local name friend mean skew similarity neighbours
  generated poisson-2d-230 poisson-2d n=230
  generated poisson-3d-33 poisson-3d n=33
  generated poisson-3d-70 poisson-3d n=70
  generated 27-point-37 poisson-3d n=37 points=27
  generated pde-27 convection-diffusion-3d n=27
  generated pde-52 convection-diffusion-3d n=52
  generated anisotropic-2d-190 anisotropic-2d n=190
  generated anisotropic-3d-42 anisotropic-3d n=42
  generated elasticity-11 elasticity-3d n=11
  generated elasticity-21 elasticity-3d n=21
  generated hex-24 fem-hex n=24
  generated hex-2-10 fem-hex n=10 degree=2
  generated hex-3-6 fem-hex n=6 degree=3
  generated hex-elastic-14 fem-hex n=14 physics=elasticity distortion=0.05
  generated tet-26 fem-tet n=26
  generated tet-elastic-13 fem-tet n=13 physics=elasticity
  generated graph-2p2-20k graph-laplacian n=20000 degree=6 exponent=2.2 seed=5
  generated graph-2p5-40k graph-laplacian n=40000 degree=10 exponent=2.5 seed=5
  generated graph-3-70k graph-laplacian n=70000 degree=5 exponent=3 seed=5
  generated graph-2p3-8k graph-laplacian n=8000 degree=30 exponent=2.3 seed=5
  generated random-15k random-spd n=15000 degree=6 seed=5
  generated random-35k random-spd n=35000 degree=22 seed=5
  generated random-90k random-spd n=90000 degree=4 seed=5
  generated banded-2-2 banded n=60000 lower=2 upper=2 seed=5
  generated banded-20-5 banded n=15000 lower=20 upper=5 seed=5
  generated banded-40-40 banded n=6000 lower=40 upper=40 seed=5
  generated gamma-20 artificial n=40000 mean=20 deviation=18 distribution=gamma similarity=0.3 neighbours=0.3 seed=5
  generated gamma-6 artificial n=120000 mean=6 deviation=6 distribution=gamma similarity=0.2 neighbours=0.2 seed=5
  generated wide-rows artificial n=4000 mean=200 deviation=60 similarity=0.5 neighbours=1.2 bandwidth=0.2 seed=5
  for friend in scircuit mac_econ_fwd500 raefsky3 bbmat conf5_4-8x8-15 mc2depi rma10 cop20k_A; do
    run "like-$friend" --preset "friends/$friend"
  done
  for mean in 5 20 100; do
    for skew in 0 100 1000; do
      [ "$mean" = 100 ] && [ "$skew" != 0 ] && continue  # the longest row would be longer than the matrix is wide
      for similarity in 0.05 0.95; do
        for neighbours in 0.05 1.4; do
          name=t1-$mean-$skew-$similarity-$neighbours
          run "${name//./p}" --preset "table1/small/$mean/$skew/$similarity/$neighbours"
        done
      done
    done
  done
}
gpu_training() {
  each poisson-2d n "500 1400"
  each poisson-3d n "55 85 140"
  each poisson-3d n "45 90" points=27
  each convection-diffusion-3d n "60 120"
  each anisotropic-2d n "1000"
  each anisotropic-3d n "75"
  each elasticity-3d n "22 40"
  each fem-hex n "70"
  each fem-hex n "24" degree=2
  each fem-hex n "11" degree=3
  each fem-hex n "32" physics=elasticity
  each fem-tet n "55"
  each fem-tet n "30" physics=elasticity
  each banded n "400000" lower=3 upper=3
  each banded n "60000" lower=30 upper=10
  each banded n "30000" lower=60 upper=60
  each graph-laplacian n "150000" degree=6 exponent=2.2
  each graph-laplacian n "300000" degree=12 exponent=2.6
  each graph-laplacian n "60000" degree=40 exponent=2.4
  each random-spd n "120000" degree=7
  each random-spd n "200000" degree=18
  each random-spd n "700000" degree=4
  each artificial n "300000" mean=18 deviation=16 distribution=gamma similarity=0.3 neighbours=0.3
  each artificial n "900000" mean=6 deviation=6 distribution=gamma similarity=0.2 neighbours=0.2
  each artificial n "20000" mean=220 deviation=70 similarity=0.5 neighbours=1.2 bandwidth=0.2
  local name
  for name in scircuit/1 mac_econ_fwd500/1 raefsky3/1 bbmat/1 mc2depi/1 rma10/1 cop20k_A/1 consph/1 webbase-1M/1; do
    run "like-${name%/*}" --preset "friends/$name"
  done
  for name in 5/0/0.05/0.05 5/100/0.95/0.5 20/0/0.5/0.95 20/1000/0.05/0.5 100/0/0.95/1.4 10/0/0.5/1.4 \
    50/100/0.05/0.05; do
    run "t1-$(tr /. -p <<<"$name")" --preset "table1/small/$name"
  done
  for name in 5/0/0.95/0.95 20/0/0.5/0.5 20/100/0.95/1.4 50/0/0.05/0.95; do
    run "t1m-$(tr /. -p <<<"$name")" --preset "table1/middle/$name"
  done
}
gpu_held_out() {
  each poisson-2d n "400 800 1700"
  each poisson-3d n "48 70 110 160"
  each poisson-3d n "38 64 100" points=27
  each convection-diffusion-3d n "45 80 130"
  each anisotropic-2d n "700 1300"
  each anisotropic-3d n "60 100"
  each elasticity-3d n "18 30 46"
  each fem-hex n "50 90"
  each fem-hex n "18 28" degree=2
  each fem-hex n "9 14" degree=3
  each fem-hex n "26 38" physics=elasticity
  each fem-tet n "40 70"
  each fem-tet n "24 36" physics=elasticity
  each banded n "500000" lower=2 upper=2 seed=5
  each banded n "150000" lower=20 upper=5 seed=5
  each banded n "40000" lower=40 upper=40 seed=5
  each banded n "20000" lower=120 upper=90 seed=5
  each graph-laplacian n "100000 250000" degree=5 exponent=2.2 seed=5
  each graph-laplacian n "200000" degree=10 exponent=2.5 seed=5
  each graph-laplacian n "400000" degree=8 exponent=3 seed=5
  each graph-laplacian n "50000" degree=50 exponent=2.3 seed=5
  each random-spd n "100000 300000" degree=6 seed=5
  each random-spd n "150000" degree=22 seed=5
  each random-spd n "900000" degree=4 seed=5
  each random-spd n "40000" degree=60 seed=5
  each artificial n "250000" mean=20 deviation=18 distribution=gamma similarity=0.3 neighbours=0.3 seed=5
  each artificial n "1000000" mean=5 deviation=5 distribution=gamma similarity=0.2 neighbours=0.2 seed=5
  each artificial n "150000" mean=40 deviation=30 distribution=gamma similarity=0.1 neighbours=0.1 seed=5
  each artificial n "25000" mean=180 deviation=60 similarity=0.5 neighbours=1.2 bandwidth=0.2 seed=5
  local name mean skew similarity neighbours
  for name in scircuit mac_econ_fwd500 raefsky3 bbmat conf5_4-8x8-15 mc2depi rma10 cop20k_A consph cant pdb1HYS \
    shipsec1; do
    run "like-$name" --preset "friends/$name/5"
  done
  for mean in 5 20 50; do
    for skew in 0 100 1000; do
      [ "$mean" = 50 ] && [ "$skew" = 1000 ] && continue  # the longest row would be longer than the matrix is wide
      for similarity in 0.05 0.95; do
        for neighbours in 0.05 1.4; do
          name=t1-$mean-$skew-$similarity-$neighbours
          run "${name//./p}" --preset "table1/small/$mean/$skew/$similarity/$neighbours"
        done
      done
    done
  done
  for name in 5/0/0.5/0.05 10/100/0.5/0.95 20/0/0.95/0.05 50/100/0.5/1.4 100/0/0.5/0.5; do
    run "t1m-$(tr /. -p <<<"$name")" --preset "table1/middle/$name"
  done
}
"${set//-/_}" |
  xargs -d '\n' -P "$((($(nproc) + 1) / 2))" -I{} sh -c '{}'
