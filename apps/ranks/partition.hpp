// Which rank owns which rows.
#pragma once
#include <petscmat.h>

#include <string>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/ranks/agree.hpp"

namespace protean::apps::ranks {

// A system whose rows have been moved to other ranks, and the way back.
class Moved {
 public:
  Moved() = default;
  ~Moved();
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

  // True if rows were moved. The rows that a rank has got are in the order that they had.
  bool any() const noexcept { return rows_ != nullptr; }
  // As the partition of the problem says. A is replaced by the matrix of the new owners, and v by the same vectors
  // there. Collective.
  void move(const Ranks& ranks, const EngineSpec& engine, Mat& A, const std::vector<Vec*>& v);
  // The number that each own row of A, the matrix of the new owners, had before. Throws bad_alloc.
  std::vector<PetscInt> numbers(Mat A) const;
  // The entries of x, a vector of the new owners, on the ranks that had them before. Collective.
  void back(Vec x, Vec before) const;

 private:
  IS rows_ = nullptr;  // the rows of this rank in the numbering before
};

}  // namespace protean::apps::ranks
