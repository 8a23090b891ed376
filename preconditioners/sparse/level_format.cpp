#include "preconditioners/sparse/level_format.hpp"

#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::detail {

template <class T>
CsrMatrix<T> narrow(const ContextPtr& host, const CsrMatrix<T>& csr) {
  if (csr.pattern.row_ptr.p32 || csr.nonzeros() > std::numeric_limits<std::int32_t>::max()) return csr;
  struct Arrays {
    Buffer<std::int32_t> row_ptr;
    std::shared_ptr<const void> columns;
  };
  const auto arrays =
      std::make_shared<Arrays>(Arrays{Buffer<std::int32_t>(host, csr.rows() + 1), csr.pattern.owner});
  for (std::int64_t i = 0; i <= csr.rows(); ++i)
    arrays->row_ptr[i] = static_cast<std::int32_t>(csr.pattern.row_ptr[i]);
  CsrMatrix<T> narrow = csr;
  narrow.pattern.row_ptr = {arrays->row_ptr.data(), nullptr}, narrow.pattern.owner = arrays;
  return narrow;
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> in_format(const ContextPtr& context, const CsrMatrix<T>& csr,
                                              const SparsityPattern& pattern, std::string& format) {
  const bool on_device = context->space() == Space::device;
  const auto make = [&]() {
    SimulatedDevice* const simulated = context->simulated();
    return make_matrix(simulated && on_device ? simulated->format(format) : find_format(format), csr,
                       context);
  };
  if (!format.empty()) return make();
  const ChoiceOptions options{.space = context->space(),
                              .products_per_iteration = 2,
                              .deterministic = context->deterministic(),
                              .value_bytes = sizeof(T)};
  const CostModel model(context->space());
  format = (pattern.space == Space::host ? choose_format(pattern, model, options)
                                         : choose_format(context, pattern, model, options))
               .id;
  try {
    return make();
  } catch (const FormatRefused&) {
    format = "csr";  // the choice sees a sample of the rows
  }
  return make();
}

template <class T>
CsrMatrix<T> new_values(const ContextPtr& host, const AssembledMatrix<T>& old, const CsrMatrix<T>& csr) {
  const ContextPtr& context = old.context();
  if (old.name() != "csr") return upload(context, narrow(host, csr));
  CsrMatrix<T> renewed = old.to_csr();  // shares its pattern
  const auto values = std::make_shared<Buffer<T>>(context, csr.nonzeros());
  copy_bytes(*context, values->data(), Space::device, csr.values, Space::host, values->bytes());
  renewed.values = values->data(), renewed.values_owner = values, renewed.watch = nullptr;
  return renewed;
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template CsrMatrix<T> narrow<T>(const ContextPtr&, const CsrMatrix<T>&);                          \
  template std::unique_ptr<AssembledMatrix<T>> in_format<T>(const ContextPtr&, const CsrMatrix<T>&, \
                                                            const SparsityPattern&, std::string&);  \
  template CsrMatrix<T> new_values<T>(const ContextPtr&, const AssembledMatrix<T>&, const CsrMatrix<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
