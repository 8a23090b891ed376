#!/bin/sh
# petsc_ranks.sh BUILD MATRICES: MatMult() on two ranks of one thread each, in microseconds a product, for ten matrices:
# five of the folder MATRICES (.mtx.xz) and five generated ones. BUILD has protean, libprotean_petsc.so and
# petsc_ranks_benchmark (PROTEAN_BENCHMARKS=ON). Prints one line a matrix; the fields are named at the head of
# petsc_ranks_benchmark.cpp.
set -eu
build=$(cd "$1" && pwd)
matrices=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=false
program=$(find "$build" -name petsc_ranks_benchmark -type f | head -1)
measure() {
  mpirun -n 2 --bind-to core "$program" "$1" -dll_append "$build/libprotean_petsc.so"
}
for name in G2_circuit af23560 bcsstk17 Trefethen_20000 wave; do
  measure "$matrices/$name.mtx.xz"
done
generated() {
  name=$1
  shift
  "$build/protean" generate --quiet "$@" -o "$work/$name.pbin"
  measure "$work/$name.pbin"
  rm "$work/$name.pbin"
}
generated poisson-2d-700 poisson-2d --set matrix.generate.n=700
generated poisson-3d-80 poisson-3d --set matrix.generate.n=80
generated poisson-3d-27-60 poisson-3d --set matrix.generate.n=60 --set matrix.generate.points=27
generated elasticity-3d-30 elasticity-3d --set matrix.generate.n=30
generated fem-tet-36 fem-tet --set matrix.generate.n=36
