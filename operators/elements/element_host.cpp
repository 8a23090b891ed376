// Element matrices on the host.
#include <fmt/format.h>

#include <cmath>
#include <mutex>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/multi_blas1.hpp"
#include "core/parallel.hpp"
#include "operators/elements/element_assemble.hpp"
#include "operators/elements/element_kernel.hpp"

namespace protean::detail {
namespace {

// Entries of the smallest product that is computed by several threads.
constexpr std::int64_t smallest_parallel = 16384;

// Divides batches [begin, end) into parts with nearly the same number of entries. Returns the borders.
std::vector<std::int64_t> cut(const ElementPlan& plan, std::int64_t begin, std::int64_t end, int threads) {
  const auto offset = [&](std::int64_t b) {
    return b < static_cast<std::int64_t>(plan.batches.size()) ? plan.batches[b].values : plan.values;
  };
  const std::int64_t first = offset(begin), total = offset(end) - first;
  const int parts = total < smallest_parallel ? 1 : threads;
  std::vector<std::int64_t> borders{begin};
  for (std::int64_t b = begin; static_cast<int>(borders.size()) < parts; ++b)
    while (static_cast<int>(borders.size()) < parts &&
           (b >= end || offset(b) - first >= total / parts * static_cast<std::int64_t>(borders.size())))
      borders.push_back(std::min(b, end));
  borders.push_back(end);
  return borders;
}

// Marks batches with a row to which batches of other parts add, too.
void mark_shared(const Context& context, ElementPlan& plan, const std::vector<std::int64_t>& borders) {
  const int parts = static_cast<int>(borders.size()) - 1;
  if (parts == 1) return;
  constexpr std::int32_t no_part = -1, several_parts = -2;
  std::vector<std::int32_t> owner(static_cast<std::size_t>(plan.rows), no_part);
  for (int part = 0; part < parts; ++part)
    for (std::int64_t b = borders[part]; b < borders[part + 1]; ++b) {
      const ElementBatch& batch = plan.batches[b];
      for (std::int64_t n = batch.map; n < batch.map + std::int64_t{batch.m} * plan.lanes; ++n)
        if (const std::int32_t r = plan.map[n]; r >= 0)
          owner[r] = owner[r] == no_part || owner[r] == part ? part : several_parts;
    }
  parallel(context, [&](int part, int all) {
    const Range range = even_range(static_cast<std::int64_t>(plan.batches.size()), part, all);
    for (std::int64_t b = range.begin; b < range.end; ++b) {
      ElementBatch& batch = plan.batches[b];
      for (std::int64_t n = batch.map; n < batch.map + std::int64_t{batch.m} * plan.lanes; ++n)
        batch.shared = batch.shared || (plan.map[n] >= 0 && owner[plan.map[n]] == several_parts);
    }
  });
}

// One sum for each part; total() adds them in the order of the parts. Used by one caller. Allocates nothing
// for up to 256 parts.
template <class T>
class PartialSums {
 public:
  explicit PartialSums(int parts) {
    if (parts > few) many_.resize(static_cast<std::size_t>(parts));
    at_ = parts > few ? many_.data() : lines_;
    for (int p = 0; p < parts; ++p) at_[p].value = 0;
    parts_ = parts;
  }
  PartialSums(const PartialSums&) = delete;
  PartialSums& operator=(const PartialSums&) = delete;
  T& operator[](int part) { return at_[part].value; }
  T total() const {
    T sum = 0;
    for (int p = 0; p < parts_; ++p) sum += at_[p].value;
    return sum;
  }

 private:
  static constexpr int few = 256;
  struct alignas(64) Item {
    T value;
  };
  Item lines_[few];
  std::vector<Item> many_;
  Item* at_;
  int parts_;
};

template <class T>
class HostElements final : public ElementOperator<T> {
 public:
  HostElements(ContextPtr context, std::shared_ptr<const ElementPlan> plan, ElementScatter scatter,
               std::span<const ElementGroup<T>> groups)
      : ElementOperator<T>(context, plan, scatter), values_(context, plan->values) {
    for (std::size_t c = 0; c + 1 < plan->colour_ptr.size(); ++c)
      cuts_.push_back(cut(*plan, plan->colour_ptr[c], plan->colour_ptr[c + 1], context->threads()));
    if (scatter == ElementScatter::gather) {
      positions_ = map_positions(context, *plan);
      results_ = Buffer<T>(context, plan->map.size());
    }
    check_values(groups);
    fill_values(groups);
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + results_.bytes() + positions_.ptr.bytes() + positions_.items.bytes() +
           this->plan().bytes();
  }

  void add_rounding_bounds(T factor, VectorView<T> bounds) const override {
    require<T>(bounds, this->rows(), Space::host, "the bounds");
    add_element_bounds<T>(this->context(), this->plan(), values_.data(), factor, bounds.data);
  }

  // Each part reads all elements and adds the rows of its own range.
  void diagonal(VectorView<T> d) const override {
    require<T>(d, this->rows(), Space::host, "the diagonal");
    const ElementPlan& plan = this->plan();
    parallel(useful_parts(*this->context(), plan.map.size()), [&](int part, int parts) {
      const Range range = even_range(plan.rows, part, parts);
      std::fill(d.data + range.begin, d.data + range.end, T(0));
      for (std::int64_t e = 0; e < plan.elements; ++e) {
        const std::int64_t slot = plan.slot_of[e], lane = slot % plan.lanes;
        const ElementBatch& batch = plan.batches[slot / plan.lanes];
        for (std::int64_t i = 0; i < batch.m; ++i) {
          const std::int32_t r = plan.map[batch.map + i * plan.lanes + lane];
          if (r >= range.begin && r < range.end)
            d[r] += values_[batch.values + plan.entry(batch.m, i, i) * plan.lanes + lane];
        }
      }
    });
    for (const std::int32_t r : plan.constrained) d[r] = 1;
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = product(T(1), x.data, T(0), y.data);
  }

  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    (void)product(alpha, x.data, beta, y.data, true);
  }

  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    const ElementPlan& plan = this->plan();
    multi_scale<T>(*this->context(), beta, Y);
    const ElementMultiWork<T> work{
        plan.batches.data(),
        values_.data(),
        plan.map.data(),
        plan.symmetric,
        this->scatter() == ElementScatter::atomic ? ElementTarget::add_shared : ElementTarget::add,
        alpha,
        X.data,
        Y.data,
        X.row_step(),
        X.column_step(),
        Y.row_step(),
        Y.column_step(),
        X.columns};
    for (const std::vector<std::int64_t>& borders : cuts_)
      parallel(static_cast<int>(borders.size()) - 1, [&](int part, int) {
        multiply_elements(work, Range{borders[part], borders[part + 1]});
      });
    for (const std::int32_t r : plan.constrained)
      for (std::int64_t j = 0; j < X.columns; ++j) Y(r, j) += alpha * X(r, j);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    (void)product(alpha, x.data, beta, y.data);
  }

  CsrMatrix<T> do_assemble(std::size_t most_bytes) const override {
    return assemble_elements<T>(this->context(), this->plan(), values_.data(), most_bytes);
  }

  void do_update_values(std::span<const ElementGroup<T>> groups) override {
    check_values(groups);
    fill_values(groups);
  }

 private:
  // Returns x . A x. With lower halves A^T is A.
  T product(T alpha, const T* x, T beta, T* y, bool transposed = false) const {
    const ElementPlan& plan = this->plan();
    const Context& context = *this->context();
    const bool gathers = this->scatter() == ElementScatter::gather;
    // All callers share one array of results.
    const std::unique_lock<std::mutex> alone =
        gathers ? std::unique_lock<std::mutex>(results_in_use_) : std::unique_lock<std::mutex>();
    if (!gathers) scale<T>(context, Coefficient<T>(beta), {y, plan.rows});
    ElementWork<T> work{
        plan.batches.data(), values_.data(), plan.map.data(), plan.symmetric, ElementTarget::add, alpha, x, y,
        transposed};
    if (gathers) work.target = ElementTarget::store, work.y = results_.data();
    if (this->scatter() == ElementScatter::atomic) work.target = ElementTarget::add_shared;
    T dot = 0;
    for (const std::vector<std::int64_t>& borders : cuts_) {
      const int parts = static_cast<int>(borders.size()) - 1;
      PartialSums<T> dots(parts);
      parallel(parts, [&](int part, int) {
        dots[part] = multiply_elements(work, {borders[part], borders[part + 1]});
      });
      dot += dots.total();
    }
    if (gathers) add_results(alpha, beta, y);
    for (const std::int32_t r : plan.constrained) y[r] += alpha * x[r], dot += x[r] * x[r];
    return dot;
  }

  void add_results(T alpha, T beta, T* y) const {
    const std::int64_t rows = this->rows();
    parallel(useful_parts(*this->context(), this->plan().map.size()), [&](int part, int parts) {
      const Range range = even_range(rows, part, parts, 8);
      const std::int64_t* ptr = positions_.ptr.data();
      const std::uint32_t* item = positions_.items.data();
      const T* from = results_.data();
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        T sum = 0;
        for (std::int64_t k = ptr[r]; k < ptr[r + 1]; ++k) sum += from[item[k]];
        y[r] = beta == T(0) ? alpha * sum : alpha * sum + beta * y[r];
      }
    });
  }

  // Calls f(batch, lane, element) for all elements, batches in parallel.
  template <class F>
  void for_elements(F f) const {
    const ElementPlan& plan = this->plan();
    parallel(useful_parts(*this->context(), plan.values), [&](int part, int parts) {
      const Range range = even_range(static_cast<std::int64_t>(plan.batches.size()), part, parts);
      for (std::int64_t b = range.begin; b < range.end; ++b)
        for (int l = 0; l < plan.batches[b].count; ++l) f(b, l, plan.element_in[b * plan.lanes + l]);
    });
  }
  const T* matrix_of(std::span<const ElementGroup<T>> groups, std::int64_t element) const {
    const std::size_t g = this->plan().group_of(element);
    const auto& group = this->plan().groups[g];
    return groups[g].matrices.data() + (element - group.first) * group.m * group.m;
  }

  void check_values(std::span<const ElementGroup<T>> groups) const {
    const ElementPlan& plan = this->plan();
    for_elements([&](std::int64_t b, int, std::int64_t element) {
      const std::int64_t m = plan.batches[b].m;
      const T* k = matrix_of(groups, element);
      T bad = 0, largest = 0, difference = 0;
      for (std::int64_t n = 0; n < m * m; ++n) bad += k[n] * T(0);  // NaN if an entry is not finite
      bool good = bad == T(0);
      if (good && plan.symmetric) {
        for (std::int64_t n = 0; n < m * m; ++n) largest = std::max(largest, std::abs(k[n]));
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < i; ++j)
            difference = std::max(difference, std::abs(k[i * m + j] - k[j * m + i]));
        good = difference <= mirror_tolerance<T>() * largest;
      }
      if (!good) refuse_matrix(plan, element, k);
    });
  }

  void fill_values(std::span<const ElementGroup<T>> groups) {
    const ElementPlan& plan = this->plan();
    constexpr int L = host_lanes<T>;
    parallel(useful_parts(*this->context(), plan.values), [&](int part, int parts) {
      const Range range = even_range(static_cast<std::int64_t>(plan.batches.size()), part, parts);
      for (std::int64_t b = range.begin; b < range.end; ++b) {
        const ElementBatch& batch = plan.batches[b];
        const T* from[L];
        for (int l = 0; l < batch.count; ++l) from[l] = matrix_of(groups, plan.element_in[b * L + l]);
        T* to = values_.data() + batch.values;
        const std::int64_t m = batch.m;
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < (plan.symmetric ? i + 1 : m); ++j, to += L)
            for (int l = 0; l < L; ++l) to[l] = l < batch.count ? from[l][i * m + j] : T(0);
      }
    });
  }

  Buffer<T> values_;
  std::vector<std::vector<std::int64_t>> cuts_;  // for each colour, the borders of the parts
  ElementRows<std::uint32_t> positions_;         // gather
  mutable Buffer<T> results_;
  mutable std::mutex results_in_use_;
};

// gather writes and reads one result for each row of an element, and reads (m + 1) / 2 or m entries for it.
// coloured needs one parallel loop for each colour. So gather is better for large elements.
ElementScatter choose_scatter(const Context& context, std::span<const ElementShape> shapes, int components) {
  if (context.threads() == 1) return ElementScatter::atomic;
  std::int64_t rows = 0, elements = 0;
  for (const ElementShape& shape : shapes) {
    rows += shape.elements * shape.nodes * components;
    elements += shape.elements;
  }
  return rows >= 16 * elements ? ElementScatter::gather : ElementScatter::coloured;
}

}  // namespace

template <class T>
std::unique_ptr<ElementOperator<T>> make_host_elements(ContextPtr context, std::int64_t nodes,
                                                       std::span<const ElementGroup<T>> groups,
                                                       const ElementOptions& options) {
  std::vector<ElementShape> shapes;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].space != Space::host)
      throw WrongSpace(fmt::format(
          "group {} lies in device memory; an operator on the host needs arrays in host memory", g));
    shapes.push_back({groups[g].elements, groups[g].nodes, groups[g].connectivity});
  }
  const ElementScatter scatter = options.scatter == ElementScatter::automatic
                                     ? choose_scatter(*context, shapes, options.components)
                                     : options.scatter;
  auto plan = std::make_shared<ElementPlan>(
      plan_elements(context, nodes, shapes, options, host_lanes<T>,
                    scatter == ElementScatter::coloured ? Colouring::batches : Colouring::none));
  check_matrices(*plan, groups);
  detail::require_memory(static_cast<std::size_t>(plan->values) * sizeof(T),
                         fmt::format("an operator of {} element matrices", plan->elements));
  if (scatter == ElementScatter::atomic)
    mark_shared(*context, *plan,
                cut(*plan, 0, static_cast<std::int64_t>(plan->batches.size()), context->threads()));
  return std::make_unique<HostElements<T>>(context, std::move(plan), scatter, groups);
}

#define PROTEAN_INSTANTIATE(T)                                        \
  template std::unique_ptr<ElementOperator<T>> make_host_elements<T>( \
      ContextPtr, std::int64_t, std::span<const ElementGroup<T>>, const ElementOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
