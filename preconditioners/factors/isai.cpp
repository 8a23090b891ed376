// Incomplete sparse approximate inverses (ISAI) of the triangles of incomplete factors without fill: Anzt, Huckle,
// Brackle and Dongarra, Parallel Computing 71 (2018) 1, doi:10.1016/j.parco.2017.10.003. With (I + L) D^-1 (I + U) = A
// in the entries of A (IC(0) for isai, ILU(0) for isai-lu; factorization.hpp):
//   X  has the pattern of (I + |L|)^power, and (X (I + L))_ij = (I)_ij there
//   Y  isai: X^T; isai-lu: the pattern of (I + |U|)^power, and (Y (I + U))_ij = (I)_ij there
//   M^-1 = Y D X, so M of isai is symmetric, and positive definite since D > 0
// M^-1 r is two products and no solve: w := (D X) r, z := Y w. Both are matrices of the catalogue: csr on a host, on a
// device in the formats that are expected to be the fastest.
//
// Each row of X is a separate small triangular system (device_inverse.hpp): the threads of a host, or some lanes of a
// warp on a device, solve them. A device also factors (device_factors.hpp), level after level, and finds the patterns.
// The host finds them, once, if levels_on_device() leaves that to it.
//
// Memory: both matrices and one vector of n; on a device their columns and values in CSR, 8 bytes for each entry of X
// in isai, and the factors; their patterns in host memory if the host has found them. New values: the factors and
// the values of both once more.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/statistics.hpp"
#include "core/transfer.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/factors/device/device_colours.hpp"
#include "preconditioners/factors/device/device_factors.hpp"
#include "preconditioners/factors/device/device_inverse.hpp"
#include "preconditioners/factors/factor_pattern.hpp"
#include "preconditioners/factors/factorization.hpp"
#include "preconditioners/sparse/level_format.hpp"
#include "preconditioners/sparse/sparse_product.hpp"
#include "preconditioners/sparse/sparse_work.hpp"

namespace protean::detail {
namespace {

// A pattern in the space of the context, and in host memory if a host has found it, for the choice of a format.
struct PatternHere {
  SparsityPattern here, found;
  std::size_t bytes() const noexcept {
    return here.bytes() + (found.space == here.space ? 0 : found.bytes());
  }
};

SparsityPattern pattern_of(const std::shared_ptr<const Graph>& graph) {
  SparsityPattern made;
  made.rows = made.cols = graph->rows(), made.nonzeros = graph->size();
  made.row_ptr.p64 = graph->ptr.data(), made.col = graph->col.data(), made.owner = graph;
  return made;
}

// Throws BadMatrix if the pattern of |A| |B| has more steps than are worth an approximate inverse: it may become dense
// if A has dense rows.
void require_few_products(const Graph& A, const Graph& B, std::int64_t entries, std::int64_t power) {
  std::int64_t steps = 0;
  for (const std::int32_t k : A.col) steps += std::ssize(B.row(k));
  const std::int64_t most = most_steps_of_power(entries);
  if (steps <= most) return;
  throw BadMatrix(fmt::format(
      "the approximate inverse of a factor to the power of {} takes {} steps for {} entries of factors, "
      "and at most {} are done: long rows couple all others; take power: {}, or another preconditioner",
      power, steps, entries, most, power - 1));
}

// The pattern of (I + |T|)^power, T = L or U of the pattern, columns ascending.
Graph power_pattern(const Context& host, const SweepPattern& pattern, bool lower, std::int64_t power) {
  const auto once = std::make_shared<const Graph>(
      collect_rows(host, pattern.n, pattern.col.size(),
                   [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
                     for (std::int64_t i = rows.begin; i < rows.end; ++i) {
                       const std::size_t before = col.size();
                       const Range own = lower ? pattern.lower(i) : pattern.upper(i);
                       if (!lower) col.push_back(static_cast<std::int32_t>(i));
                       col.resize(col.size() + static_cast<std::size_t>(own.size()));
                       copy_row(pattern.col.data(), own, !lower, col.data() + col.size() - own.size());
                       if (lower) col.push_back(static_cast<std::int32_t>(i));
                       size[i - rows.begin] = static_cast<std::int64_t>(col.size() - before);
                     }
                   }));
  const SparsityPattern factor = pattern_of(once);
  Graph result = *once;
  for (std::int64_t k = 1; k < power; ++k) {
    const auto so_far = std::make_shared<const Graph>(std::move(result));
    require_few_products(*so_far, *once, pattern.col.size(), k + 1);
    result = product_pattern(host, pattern_of(so_far), factor);
  }
  return result;
}

// The pattern of the transpose, and for each entry its place there.
std::pair<Graph, Buffer<std::int64_t>> mirrored(const ContextPtr& host, const Graph& X) {
  Graph made;
  const std::int64_t n = X.rows();
  made.ptr.assign(static_cast<std::size_t>(n) + 1, 0);
  for (const std::int32_t j : X.col) ++made.ptr[static_cast<std::size_t>(j) + 1];
  for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) made.ptr[j + 1] += made.ptr[j];
  made.col.resize(X.col.size());
  std::vector<std::int64_t> next(made.ptr.begin(), made.ptr.end() - 1);
  Buffer<std::int64_t> place(host, X.size());
  for (std::int64_t i = 0, p = 0; i < n; ++i)
    for (const std::int32_t j : X.row(i)) {
      place[p] = next[static_cast<std::size_t>(j)]++;
      made.col[static_cast<std::size_t>(place[p++])] = static_cast<std::int32_t>(i);
    }
  return {std::move(made), std::move(place)};
}

template <class T>
class Isai final : public BySolving<T> {
 public:
  Isai(const LinearOperator<T>& A, const PreconditionerOptions& options, bool symmetric)
      : BySolving<T>(A),
        options_(options),
        symmetric_(symmetric),
        host_(A.context()->space() == Space::host ? A.context() : Context::host()) {}

  std::string_view name() const noexcept override { return symmetric_ ? "isai" : "isai-lu"; }
  bool symmetric() const noexcept override { return symmetric_; }
  std::vector<PreconditionerFigure> figures() const override {
    if (!known_) return {};
    return {{"shift", shift_},
            {"entries", static_cast<double>(known_->X.here.nonzeros + known_->Y.here.nonzeros)}};
  }
  Recording recording() const noexcept override {
    if (!DX_ || !Y_) return {false, 0, 0, false};
    const Recording first = DX_->recording(), second = Y_->recording();
    return {first.allowed && second.allowed, 1 + this->setups(), first.bytes + second.bytes,
            first.heeds_stop && second.heeds_stop};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const bool on_device = A.context()->space() == Space::device;
    const bool analyse = pattern_changed || !known_;
    std::shared_ptr<Known> known = known_;
    std::optional<CsrMatrix<T>> csr, there;
    if (on_device) there = csr_of(A);
    if (there && there->pattern.space != Space::device) there.reset();
    if (analyse) known = there ? analysed_there(there->pattern) : nullptr;
    if (!known || !on_device || known->left_out) {
      csr = finite_rows(A, host_, name());
      const std::int64_t all = csr->nonzeros();
      if (symmetric_) csr = mirrored_entries(name(), false, host_, *csr);
      if (!known) known = analysed(csr->pattern, on_device), known->left_out = csr->nonzeros() < all;
    }
    if (on_device) {
      if (!there) there = upload(A.context(), csr ? *csr : rows_on_host(A, host_, name()));
      set_up_on_device(known, *there, analyse);
    } else {
      set_up_on_host(known, *csr);
    }
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const std::lock_guard lock(mutex_);
    DX_->apply(r, w_);
    Y_->apply(VectorView<const T>(w_.view()), z);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    if (!known_) return 0;
    return known_->bytes() + (DX_ ? DX_->bytes() : 0) + (Y_ ? Y_->bytes() : 0) +
           static_cast<std::size_t>(w_.size()) * sizeof(T);
  }

 private:
  // What follows from the pattern.
  struct Known {
    std::shared_ptr<SweepPattern> factors;  // on a host
    FactorPlan plan;
    PatternHere X, Y;
    Buffer<std::int64_t> place;  // of each entry of X in X^T (isai), in the space of the context
    std::unique_ptr<DeviceFactors<T>> on_device;
    std::string format_of_X, format_of_Y;
    bool left_out = false;  // entries without a mirrored one
    std::size_t bytes() const noexcept {
      return (factors ? factors->bytes() : 0) + plan.bytes() + X.bytes() + Y.bytes() + place.bytes() +
             (on_device ? on_device->bytes() : 0);
    }
  };

  std::shared_ptr<Known> analysed(const SparsityPattern& A, bool on_device) const {
    auto made = std::make_shared<Known>();
    made->factors = pattern_of_factors(host_, A, 0, name());
    find_levels(host_, *made->factors, false);
    const SweepPattern& factors = *made->factors;
    if (!on_device) made->plan = plan_factors(host_, factors, symmetric_);
    auto X = std::make_shared<const Graph>(power_pattern(*host_, factors, true, options_.power));
    Graph Y;
    Buffer<std::int64_t> place;
    if (symmetric_)
      std::tie(Y, place) = mirrored(host_, *X);
    else
      Y = power_pattern(*host_, factors, false, options_.power);
    put(made->X, std::move(X), on_device);
    put(made->Y, std::make_shared<const Graph>(std::move(Y)), on_device);
    made->place = on_device ? moved(place) : std::move(place);
    if (!on_device) {
      made->format_of_X = made->format_of_Y = "csr";
      return made;
    }
    made->on_device = std::make_unique<DeviceFactors<T>>(this->context(), factors, true);
    made->factors = nullptr;
    return made;
  }
  // The same on the device, of a pattern there; null if the host must do it.
  std::shared_ptr<Known> analysed_there(const SparsityPattern& A) const {
    const ContextPtr& device = this->context();
    if (A.rows == 0) return nullptr;
    std::optional<ColouredRows> rows = levels_on_device(device, A);
    if (!rows) return nullptr;
    auto made = std::make_shared<Known>();
    const std::unique_ptr<SparseWork<T>> work = sparse_work<T>(device);
    const auto power = [&](bool lower) {
      const SparsityPattern factor = work->triangle(A, lower);
      SparsityPattern result = factor;
      for (std::int64_t k = 1; k < options_.power; ++k) result = work->product_pattern(result, factor);
      return result;
    };
    try {
      made->X.here = power(true);
      if (symmetric_) {
        Buffer<std::int32_t> transposition;
        made->Y.here = work->transpose(made->X.here, transposition);
        made->place = work->places(transposition);
      } else {
        made->Y.here = power(false);
      }
    } catch (const TooManyEntries&) { return nullptr; }
    made->X.found = made->X.here, made->Y.found = made->Y.here;
    made->on_device = std::make_unique<DeviceFactors<T>>(device, std::move(*rows));
    return made;
  }
  void put(PatternHere& to, const std::shared_ptr<const Graph>& graph, bool on_device) const {
    to.found = to.here = pattern_of(graph);
    if (!on_device) return;
    struct Arrays {
      Buffer<std::int64_t> wide;
      Buffer<std::int32_t> narrow, col;
    };
    const ContextPtr& device = this->context();
    auto arrays = std::make_shared<Arrays>();
    arrays->col = Buffer<std::int32_t>(device, graph->size());
    send(arrays->col, graph->col.data());
    // Narrow row pointers, if there are few enough entries, since each product reads them.
    if (graph->size() <= std::numeric_limits<std::int32_t>::max()) {
      const std::vector<std::int32_t> narrow(graph->ptr.begin(), graph->ptr.end());
      arrays->narrow = Buffer<std::int32_t>(device, graph->rows() + 1);
      send(arrays->narrow, narrow.data());
      to.here.row_ptr = {arrays->narrow.data(), nullptr};
    } else {
      arrays->wide = Buffer<std::int64_t>(device, graph->rows() + 1);
      send(arrays->wide, graph->ptr.data());
      to.here.row_ptr = {nullptr, arrays->wide.data()};
    }
    to.here.col = arrays->col.data(), to.here.space = Space::device, to.here.owner = std::move(arrays);
  }
  template <class U>
  void send(Buffer<U>& to, const U* from) const {
    copy_bytes(*this->context(), to.data(), Space::device, from, Space::host, to.bytes());
  }
  template <class U>
  Buffer<U> moved(const Buffer<U>& from) const {
    Buffer<U> there(this->context(), from.size());
    send(there, from.data());
    return there;
  }

  // A matrix of these values, in the space of the context.
  static CsrMatrix<T> matrix_in(const PatternHere& pattern, Buffer<T> values) {
    CsrMatrix<T> made;
    made.pattern = pattern.here;
    const auto owned = std::make_shared<const Buffer<T>>(std::move(values));
    made.values = owned->data(), made.values_owner = owned;
    return made;
  }
  static InverseRows<T> rows_of(const PatternHere& pattern, Buffer<T>& values, bool lower) {
    const SparsityPattern& here = pattern.here;
    return {here.rows, here.row_ptr.p32, here.row_ptr.p64, here.col, values.data(), lower};
  }

  // All rows of X or Y by some threads of a host; false if a value is not finite.
  static bool invert(int threads, const TriangleRows<T>& t, const InverseRows<T>& X, const T* d,
                     const std::int64_t* mirror, T* mirrored) {
    std::vector<std::uint8_t> finite(static_cast<std::size_t>(threads), 1);
    parallel(threads, [&](int part, int parts) {
      const Range mine = even_range(X.rows, part, parts);
      CheckedSteps steps;
      for (std::int64_t i = mine.begin; i < mine.end; ++i) {
        steps.did(16 * X.size(i));
        const std::int32_t* const columns = X.col + X.begin(i);
        const std::int64_t count = X.size(i);
        const auto row_of = [&](std::int64_t step) {
          return t.row(columns[number_of_step(X.lower, count, step)]);
        };
        inverse_row(t, X.lower, columns, X.values + X.begin(i), count, 0, 1, row_of, [] {});
        if (!finish_inverse_row(X, i, d, mirror, mirrored, 0, 1)) finite[static_cast<std::size_t>(part)] = 0;
      }
    });
    return std::all_of(finite.begin(), finite.end(), [](std::uint8_t one) { return one != 0; });
  }

  void set_up_on_host(std::shared_ptr<Known> known, const CsrMatrix<T>& csr) {
    const Vector<T> diagonal = usable_diagonal<T>(name(), host_, csr, options_.zero_diagonal, symmetric_);
    const SweepPattern& factors = *known->factors;
    SweepValues<T> values(host_, factors);
    const double shift = factor<T>(task(), host_, csr, diagonal, factors, known->plan, false, values);
    Buffer<T> x(host_, known->X.here.nonzeros), y(host_, known->Y.here.nonzeros);
    const T *const entries = values.entries.data(), *const d = values.d.data();
    const std::int32_t* const col = factors.col.data();
    const int threads = useful_parts(*host_, x.size());
    bool finite = invert(threads, {factors.lower_ptr.data(), nullptr, col, entries, factors.n, false},
                         rows_of(known->X, x, true), d, symmetric_ ? known->place.data() : nullptr, y.data());
    if (!symmetric_)
      finite = invert(threads, {factors.upper_ptr.data(), nullptr, col, entries, factors.n, true},
                      rows_of(known->Y, y, false), nullptr, nullptr, nullptr) &&
               finite;
    if (!finite) refuse_overflow<T>(name());
    const CsrMatrix<T> DX = matrix_in(known->X, std::move(x)), Y = matrix_in(known->Y, std::move(y));
    take(known, DX, Y, shift);
  }

  void set_up_on_device(std::shared_ptr<Known> known, const CsrMatrix<T>& csr, bool analyse) {
    const ContextPtr& context = this->context();
    DeviceFactors<T>& factors = *known->on_device;
    Buffer<T> x(context, known->X.here.nonzeros), y(context, known->Y.here.nonzeros);
    double shift = 0;
    try {
      shift = factor_on_device<T>(task(), host_, factors, csr);
      const FactorView<T> f = factors.view(true);
      const TriangleRows<T> lower{f.lower, f.place, f.col, f.values, f.rows, false},
          upper{f.upper, f.place, f.col, f.values, f.rows, false};
      const std::int64_t* const place = symmetric_ ? known->place.data() : nullptr;
      const InverseRows<T> X = rows_of(known->X, x, true), Y = rows_of(known->Y, y, false);
      bool finite = true;
      if (context->simulated()) {
        const DeviceWork work(*context);
        finite = invert(1, lower, X, f.d, place, y.data());
        if (!symmetric_) finite = invert(1, upper, Y, nullptr, nullptr, nullptr) && finite;
      } else {
#if defined(PROTEAN_HAVE_CUDA)
        unsigned bad = 0;
        Buffer<unsigned> flag(context, 1);
        send(flag, &bad);
        device::invert_triangle<T>(*context, lower, X, x.size(), f.d, place, y.data(), flag.data());
        if (!symmetric_)
          device::invert_triangle<T>(*context, upper, Y, y.size(), nullptr, nullptr, nullptr, flag.data());
        copy_bytes(*context, &bad, Space::host, flag.data(), Space::device, sizeof bad);
        finite = bad == 0;
#endif
      }
      if (!finite) refuse_overflow<T>(name());
    } catch (...) {
      factors.drop();
      throw;
    }
    factors.drop();  // X and Y are what counts
    const CsrMatrix<T> DX = matrix_in(known->X, std::move(x)), Y = matrix_in(known->Y, std::move(y));
    if (analyse) return take(known, DX, Y, shift);
    // In the formats that they have, which may keep their arrays.
    this->change_arrays([&] { DX_->update_values(DX, SamePattern()), Y_->update_values(Y, SamePattern()); });
    shift_ = shift;
  }

  void take(std::shared_ptr<Known> known, const CsrMatrix<T>& DX, const CsrMatrix<T>& Y, double shift) {
    const ContextPtr& context = this->context();
    auto first = in_format<T>(context, DX, known->X.found, known->format_of_X);
    auto second = in_format<T>(context, Y, known->Y.found, known->format_of_Y);
    if (w_.size() != DX.rows()) w_ = Vector<T>(context, DX.rows());
    DX_ = std::move(first), Y_ = std::move(second), known_ = std::move(known), shift_ = shift;
  }

  FactorTask task() const { return {name(), symmetric_, options_.zero_diagonal}; }

  PreconditionerOptions options_;
  bool symmetric_;
  ContextPtr host_;  // in which patterns are found
  std::shared_ptr<Known> known_;
  std::unique_ptr<AssembledMatrix<T>> DX_, Y_;
  double shift_ = 0;
  mutable std::mutex mutex_;
  mutable Vector<T> w_;
};

}  // namespace

template <class T>
MadePreconditioner<T> make_isai(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Isai<T>>(A, options, true);
}
template <class T>
MadePreconditioner<T> make_isai_lu(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Isai<T>>(A, options, false);
}

#define PROTEAN_INSTANTIATE(T)                                                                         \
  template MadePreconditioner<T> make_isai<T>(const LinearOperator<T>&, const PreconditionerOptions&); \
  template MadePreconditioner<T> make_isai_lu<T>(const LinearOperator<T>&, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
