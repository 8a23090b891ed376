// Element matrices added up into CSR. Private to operators/.
#pragma once
#include "operators/element_plan.hpp"

namespace protean::detail {

// `values` as the plan says, in host memory.
template <class T>
CsrMatrix<T> assemble_elements(const ContextPtr& host, const ElementPlan& plan, const T* values);

}  // namespace protean::detail
