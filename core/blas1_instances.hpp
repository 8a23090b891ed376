// The instances for T of the operations of core/blas1.hpp and core/multi_blas1.hpp, in the namespace in which the macro
// is used: each set of kernels has all of them with these arguments. Private.
#pragma once

#define PROTEAN_BLAS1_INSTANCES(T)                                                                         \
  template void copy<T>(const Context&, VectorView<const T>, VectorView<T>);                               \
  template void fill<T>(const Context&, T, VectorView<T>);                                                 \
  template void multiply<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<T>);      \
  template void reciprocal<T>(const Context&, VectorView<T>, T*);                                          \
  template void max_abs<T>(const Context&, VectorView<const T>, T*);                                       \
  template void scalar_product<T>(const Context&, Coefficient<T>, Coefficient<T>, T*);                     \
  template void dot<T>(const Context&, VectorView<const T>, VectorView<const T>, T*);                      \
  template void dot_pair<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<const T>, \
                            T*);                                                                           \
  template void axpy_dot<T>(const Context&, Coefficient<T>, VectorView<const T>, VectorView<T>, T*);       \
  template void multiply_add<T>(const Context&, VectorView<const T>, VectorView<const T>, Coefficient<T>,  \
                                VectorView<T>);                                                            \
  template void cg_residual<T>(const Context&, Coefficient<T>, VectorView<const T>, VectorView<const T>,   \
                               VectorView<T>, T*);                                                         \
  template void cg_direction<T>(const Context&, Coefficient<T>, VectorView<const T>, VectorView<const T>,  \
                                Coefficient<T>, VectorView<T>, VectorView<T>);                             \
  template void bicgstab_direction<T>(const Context&, VectorView<const T>, Coefficient<T>, Coefficient<T>, \
                                      VectorView<const T>, VectorView<const T>, VectorView<T>,             \
                                      VectorView<T>);                                                      \
  template void bicgstab_half<T>(const Context&, Coefficient<T>, VectorView<const T>, VectorView<const T>, \
                                 VectorView<T>, VectorView<T>, T*);                                        \
  template void bicgstab_update<T>(const Context&, Coefficient<T>, VectorView<const T>, Coefficient<T>,    \
                                   VectorView<const T>, VectorView<const T>, VectorView<const T>,          \
                                   VectorView<T>, VectorView<T>, T*);                                      \
  template void block_dot<T>(const Context&, VectorBlock<const T>, VectorView<const T>, T*);               \
  template void block_axpy<T>(const Context&, T, VectorBlock<const T>, const T*, VectorView<T>, T*)

#define PROTEAN_MULTI_BLAS1_INSTANCES(T)                                                                     \
  template void copy_columns<T>(const Context&, MultiVectorView<const T>, MultiVectorView<T>,                \
                                std::span<const ColumnPair>);                                                \
  template void multi_residual<T>(const Context&, MultiVectorView<const T>, MultiVectorView<T>,              \
                                  std::span<const ColumnPair>, T*);                                          \
  template void multi_dot<T>(const Context&, MultiVectorView<const T>, MultiVectorView<const T>, const T*,   \
                             T*);                                                                            \
  template void multi_dot_pair<T>(const Context&, MultiVectorView<const T>, MultiVectorView<const T>,        \
                                  const T*, T*, T*);                                                         \
  template void multi_scalar_product<T>(const Context&, std::int64_t, Coefficient<T>, Coefficient<T>,        \
                                        const T*, T*);                                                       \
  template void multi_bicgstab_half<T>(const Context&, Coefficient<T>, MultiVectorView<const T>,             \
                                       VectorView<const T>, MultiVectorView<T>, MultiVectorView<T>,          \
                                       const T*, T*);                                                        \
  template void multi_bicgstab_update<T>(const Context&, Coefficient<T>, MultiVectorView<const T>,           \
                                         Coefficient<T>, MultiVectorView<const T>, MultiVectorView<const T>, \
                                         MultiVectorView<const T>, MultiVectorView<T>, MultiVectorView<T>,   \
                                         const T*, T*, T*);                                                  \
  template void multi_bicgstab_direction<T>(const Context&, MultiVectorView<const T>, Coefficient<T>,        \
                                            Coefficient<T>, MultiVectorView<const T>, VectorView<const T>,   \
                                            MultiVectorView<T>, MultiVectorView<T>, const T*);               \
  template void multi_multiply<T>(const Context&, VectorView<const T>, MultiVectorView<const T>,             \
                                  MultiVectorView<T>, const T*);                                             \
  template void multi_cg_residual<T>(const Context&, Coefficient<T>, MultiVectorView<const T>,               \
                                     VectorView<const T>, MultiVectorView<T>, const T*, T*, T*);             \
  template void multi_cg_direction<T>(const Context&, Coefficient<T>, VectorView<const T>,                   \
                                      MultiVectorView<const T>, Coefficient<T>, MultiVectorView<T>,          \
                                      MultiVectorView<T>, const T*);                                         \
  template void multi_block_dot<T>(const Context&, MultiVectorBlock<const T>, MultiVectorView<const T>,      \
                                   const T*, T*);                                                            \
  template void multi_divide<T>(const Context&, const T*, MultiVectorView<T>, const T*)
