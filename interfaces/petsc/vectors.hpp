// Vecs as memory, and memory as Vecs.
#pragma once
#include <petscvec.h>

#include <cstdint>

#include <protean/core/vector.hpp>

#include "calls.hpp"

namespace protean_petsc::detail {

// Gives a Vec other memory for one call.
class Placed {
 public:
  Placed(Vec v, const double* data) : v_(v) { must(VecPlaceArray(v, data)); }
  ~Placed() { VecResetArray(v_); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  Vec v_;
};

// Two Vecs that Placed gives memory.
struct Pair {
  Vec in = nullptr, out = nullptr;
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() { VecDestroy(&in), VecDestroy(&out); }
};

// The entries of a Vec in host memory, for the time of an object.
class Reading {
 public:
  explicit Reading(Vec v) : v_(v) {
    must(VecGetLocalSize(v, &size_));
    must(VecGetArrayRead(v, &data_));
  }
  ~Reading() { VecRestoreArrayRead(v_, &data_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  protean::VectorView<const double> view() const { return {data_, size_}; }

 private:
  Vec v_;
  PetscInt size_ = 0;
  const double* data_ = nullptr;
};
class Writing {
 public:
  // read: the entries are read, too.
  explicit Writing(Vec v, bool read = true) : v_(v), read_(read) {
    must(VecGetLocalSize(v, &size_));
    must(read ? VecGetArray(v, &data_) : VecGetArrayWrite(v, &data_));
  }
  ~Writing() { (void)(read_ ? VecRestoreArray(v_, &data_) : VecRestoreArrayWrite(v_, &data_)); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  protean::VectorView<double> view() const { return {data_, size_}; }

 private:
  Vec v_;
  bool read_;
  PetscInt size_ = 0;
  double* data_ = nullptr;
};

}  // namespace protean_petsc::detail
