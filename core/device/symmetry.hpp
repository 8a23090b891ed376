// The device side of symmetry_facts() (core/symmetry.hpp). Private; CUDA builds only.
#pragma once
#include "core/symmetry.hpp"

namespace protean::device {

template <class T>
detail::SymmetryFacts symmetry_facts(const Context& context, const CsrMatrix<T>& csr);

}  // namespace protean::device
