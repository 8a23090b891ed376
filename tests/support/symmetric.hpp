// Symmetric matrices, for formats that hold no others (FormatTraits::symmetric_only).
#pragma once
#include "support/battery.hpp"

namespace protean::test {

// A + A^T, without doubling the diagonal, of a matrix that is filled up to a square one with rows or columns without
// entries. Symmetric to the bit.
template <class T>
CsrMatrix<T> symmetric_of(const CsrMatrix<T>& a);

// The battery, and many of its matrices made symmetric, with the name <name>_symmetric. Built once.
const std::vector<BatteryMatrix>& symmetric_battery();

}  // namespace protean::test
