#include "operators/elements/element_operator.hpp"

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "operators/elements/element_assemble.hpp"
#include "operators/elements/element_plan.hpp"

namespace protean {

std::string_view to_string(ElementScatter scatter) noexcept {
  switch (scatter) {
    case ElementScatter::automatic:
      return "automatic";
    case ElementScatter::atomic:
      return "atomic";
    case ElementScatter::coloured:
      return "coloured";
    case ElementScatter::gather:
      return "gather";
  }
  return "unknown";
}

template <class T>
ElementOperator<T>::ElementOperator(ContextPtr context, std::shared_ptr<const detail::ElementPlan> plan,
                                    ElementScatter scatter)
    : LinearOperator<T>(std::move(context), {plan->rows, plan->rows}),
      plan_(std::move(plan)),
      scatter_(scatter) {}

template <class T>
bool ElementOperator<T>::symmetric() const noexcept {
  return plan_->symmetric;
}
template <class T>
std::int64_t ElementOperator<T>::elements() const noexcept {
  return plan_->elements;
}
template <class T>
std::int64_t ElementOperator<T>::entries() const noexcept {
  return plan_->entries;
}
template <class T>
std::span<const std::int32_t> ElementOperator<T>::free_unknowns() const noexcept {
  return plan_->free_unknowns;
}

template <class T>
std::string_view ElementOperator<T>::name() const noexcept {
  switch (scatter_) {
    case ElementScatter::atomic:
      return "lma-atomic";
    case ElementScatter::coloured:
      return "lma-coloured";
    default:
      return "lma-gather";
  }
}

template <class T>
std::string_view ElementOperator<T>::no_multi_product() const noexcept {
  if (scatter_ != ElementScatter::gather) return {};
  return "lma-gather keeps the results of all elements for one vector; scatter coloured or atomic takes "
         "several at once";
}

template <class T>
std::vector<typename ElementOperator<T>::Coloured> ElementOperator<T>::colours() const {
  std::vector<Coloured> result;
  if (scatter_ != ElementScatter::coloured) return result;
  result.resize(static_cast<std::size_t>(plan_->elements));
  for (std::size_t c = 0; c + 1 < plan_->colour_ptr.size(); ++c)
    for (std::int64_t b = plan_->colour_ptr[c]; b < plan_->colour_ptr[c + 1]; ++b)
      for (std::int64_t slot = b * plan_->lanes; slot < (b + 1) * plan_->lanes; ++slot)
        if (const std::int32_t element = plan_->element_in[slot]; element >= 0)
          result[element] = {static_cast<std::int32_t>(c), static_cast<std::int32_t>(b)};
  return result;
}

template <class T>
SparsityPattern ElementOperator<T>::pattern_of_rows(
    std::span<const std::pair<std::int64_t, std::int64_t>> blocks) const {
  return detail::assembled_rows(*plan_, blocks);
}

template <class T>
void ElementOperator<T>::update_values(std::span<const ElementGroup<T>> groups) {
  detail::check_matrices(*plan_, groups);
  detail::check_same_connectivity(*this->context(), *plan_, groups);
  const detail::DeviceScope scope(*this->context());
  do_update_values(groups);
  ++revision_.values;
}

template <class T>
CsrMatrix<T> ElementOperator<T>::assemble(std::size_t most_bytes) const {
  const detail::DeviceScope scope(*this->context());
  return do_assemble(most_bytes);
}

template <class T>
std::unique_ptr<ElementOperator<T>> make_element_operator(ContextPtr context, std::int64_t nodes,
                                                          std::span<const ElementGroup<T>> groups,
                                                          const ElementOptions& options) {
  if (context->deterministic())
    throw NotAvailable(
        "products with element matrices have no deterministic mode; assemble them, or switch deterministic "
        "mode off");
  const detail::DeviceScope scope(*context);
  if (context->space() == Space::device) {
#if defined(PROTEAN_HAVE_CUDA)
    if (!context->simulated())
      return detail::make_device_elements<T>(std::move(context), nodes, groups, options);
#endif
    throw NotAvailable("element matrices on a device need a GPU and a build with CUDA; use a host context");
  }
  return detail::make_host_elements<T>(std::move(context), nodes, groups, options);
}

#define PROTEAN_INSTANTIATE(T)                                           \
  template class ElementOperator<T>;                                     \
  template std::unique_ptr<ElementOperator<T>> make_element_operator<T>( \
      ContextPtr, std::int64_t, std::span<const ElementGroup<T>>, const ElementOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
