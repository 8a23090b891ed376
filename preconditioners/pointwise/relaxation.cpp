// Gauss-Seidel and SSOR. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, sections 10.2 and 12.4.
// With A = L + D + U in the order of the colours:
//   gauss-seidel  M = D + L
//                 M^-1 = D^-1 (I + L D^-1)^-1
//   ssor          M = (D + w L) D^-1 (D + w U) / (w (2 - w))
//                 M^-1 = (I + w D^-1 U)^-1 w (2 - w) D^-1 (I + w L D^-1)^-1
// Rows of one colour are not coupled, so each colour is one stage of a solve (colours.hpp).
// Memory: columns, once more their places, and values of the entries off the diagonal (gauss-seidel: of L), 60 bytes
// and three values a row.
//
// On a device: colours and values are found there (device_colours.hpp, device_factors.hpp), and new values do not come
// to the host. If the device hands that over, and for more than 32 colours, they are found on the host, which keeps
// the pattern (device_sweeps.hpp). The device has the rows in the order of the colours. New values go to the same
// addresses.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/factors/colours.hpp"
#include "preconditioners/factors/device/device_colours.hpp"
#include "preconditioners/factors/device/device_factors.hpp"
#include "preconditioners/factors/device/device_solves.hpp"
#include "preconditioners/factors/factorization.hpp"
#include "preconditioners/triangular/level_solve.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {
namespace {

template <class T>
class Relaxation final : public BySolving<T> {
 public:
  Relaxation(const LinearOperator<T>& A, const PreconditionerOptions& options, bool both)
      : BySolving<T>(A), options_(options), both_(both) {}

  std::string_view name() const noexcept override { return both_ ? "ssor" : "gauss-seidel"; }
  bool symmetric() const noexcept override { return both_; }
  std::vector<PreconditionerFigure> figures() const override {
    if (factors_) return {{"colours", static_cast<double>(factors_->stages())}};
    if (!pattern_) return {};
    return {{"colours", static_cast<double>(pattern_->forward.count())}};
  }

  // On a device the arrays move with a new pattern only.
  Recording recording() const noexcept override {
    if (!on_device_) return BySolving<T>::recording();
    return {on_device_->recordable(), 1 + layouts_, this->bytes(), on_device_->heeds_stop()};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const ContextPtr& context = A.context();
    const bool on_device = context->space() == Space::device;
    if (on_device && !host_) host_ = Context::host();
    const ContextPtr& host = on_device ? host_ : context;
    if (on_device && (pattern_changed || !pattern_) && found_there(A, pattern_changed)) return;
    const CsrMatrix<T> csr = finite_rows(A, host, name());
    const Vector<T> d = usable_diagonal<T>(name(), host, csr, options_.zero_diagonal);
    std::shared_ptr<const Order> order = order_;
    std::shared_ptr<const SweepPattern> pattern = pattern_;
    const bool analysed = pattern && !pattern_changed;
    if (pattern_changed || !pattern) std::tie(order, pattern) = analyse(host, csr);
    SweepValues<T> values(host, *pattern);
    fill_in(*host, csr, d, *order, *pattern, values);
    require_no_overflow<T>(*host, name(), values.entries.data(), values.entries.size());
    require_no_overflow<T>(*host, name(), values.d.data(), values.d.size());
    if (on_device && analysed) {
      this->change_arrays([&] { on_device_->set_values(*pattern, values); });
    } else if (on_device) {
      auto made = make_stages<T>(context, *pattern);
      made->set_values(*pattern, values);
      on_device_ = std::move(made), factors_ = nullptr, ++layouts_;
    } else {
      if (!analysed) levels_ = LevelSolve<T>::make(context, *pattern, order->of, order->count);
      levels_->set_values(*pattern, values);
    }
    order_ = std::move(order), pattern_ = std::move(pattern);
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (on_device_) return on_device_->solve(r, z);
    levels_->solve(r, z);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return (pattern_ ? pattern_->bytes() : 0) + (order_ ? order_->of.bytes() : 0) +
           (on_device_ ? on_device_->bytes() : 0) + (levels_ ? levels_->bytes() : 0);
  }

 private:
  using Order = Colours;

  T relaxation() const noexcept { return both_ ? static_cast<T>(options_.omega) : T(1); }
  T scale_of_diagonal() const noexcept {
    const T w = relaxation();
    return both_ ? w * (T(2) - w) : T(1);
  }

  // The whole setup on a device. False, and nothing is changed, if the host begins it.
  bool found_there(const LinearOperator<T>& A, bool pattern_changed) {
    std::optional<CsrMatrix<T>> there = csr_of(A);
    if (there && there->pattern.space != Space::device) there.reset();
    if (factors_ && !pattern_changed) {
      compute_there(*factors_, there ? *there : upload(A.context(), rows_on_host(A, host_, name())));
      return true;
    }
    if (!there) return false;
    std::optional<ColouredRows> rows =
        colour_on_device(A.context(), there->pattern, both_, static_cast<int>(most_stage_launches));
    if (!rows) return false;
    auto made = std::make_unique<DeviceFactors<T>>(A.context(), std::move(*rows));
    compute_there(*made, *there);
    factors_ = made.get(), on_device_ = std::move(made), ++layouts_;
    order_ = nullptr, pattern_ = nullptr;
    return true;
  }
  void compute_there(DeviceFactors<T>& factors, const CsrMatrix<T>& csr) {
    try {
      const FactorStatus status =
          factors.relax(csr, options_.zero_diagonal == ZeroDiagonal::one, relaxation(), scale_of_diagonal());
      if (status.trouble & (entry_not_finite | diagonal_unusable))
        refuse_entries<T>({name(), false, options_.zero_diagonal}, host_, *this->context(), csr);
      if (status.trouble & factor_overflow) refuse_overflow<T>(name());
    } catch (...) {
      factors.drop();
      throw;
    }
    if (&factors == factors_)
      this->change_arrays([&] { factors.keep(); });
    else
      factors.keep();
  }

  // f(column, value, in L) for the entries of row i in their order. In gauss-seidel the entries of U are left out.
  template <class F>
  void off_diagonal(const CsrMatrix<T>& csr, const Colours& colours, std::int64_t i, F f) const {
    const std::int64_t first = csr.pattern.row_ptr[i];
    const std::span<const std::int32_t> columns = csr.pattern.row(i);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::int32_t j = columns[k];
      if (j == i) continue;
      const bool lower = colours.of[j] < colours.of[i];
      if (lower || both_) f(j, csr.values[first + static_cast<std::int64_t>(k)], lower);
    }
  }

  std::pair<std::shared_ptr<const Order>, std::shared_ptr<const SweepPattern>> analyse(
      const ContextPtr& context, const CsrMatrix<T>& csr) const {
    const std::int64_t n = csr.rows();
    auto colours = std::make_shared<Colours>(colour(context, csr));
    auto made = std::make_shared<SweepPattern>();
    made->n = n;
    Buffer<std::int32_t> lower(context, n), upper(context, n);
    for (std::int64_t i = 0; i < n; ++i) {
      lower[i] = upper[i] = 0;
      off_diagonal(csr, *colours, i,
                   [&](std::int32_t, T, bool in_lower) { ++(in_lower ? lower : upper)[i]; });
    }
    set_row_sizes(
        context, *made, [&](std::int64_t i) { return lower[i]; }, [&](std::int64_t i) { return upper[i]; });
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t in_l = made->lower(i).begin, in_u = made->upper(i).end;
      off_diagonal(csr, *colours, i,
                   [&](std::int32_t j, T, bool in_lower) { made->col[in_lower ? in_l++ : --in_u] = j; });
    }
    set_colour_stages(context, *made, colours->of, colours->count, both_);
    return {std::move(colours), std::move(made)};
  }

  void fill_in(const Context& context, const CsrMatrix<T>& csr, const Vector<T>& d, const Colours& colours,
               const SweepPattern& pattern, SweepValues<T>& values) const {
    const T w = relaxation(), factor = scale_of_diagonal();
    parallel(useful_parts(context, pattern.n), [&](int part, int parts) {
      const Range rows = even_range(pattern.n, part, parts);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        std::int64_t lower = pattern.lower(i).begin, upper = pattern.upper(i).end;
        off_diagonal(csr, colours, i, [&](std::int32_t j, T a, bool in_lower) {
          if (in_lower)
            values.entries[lower++] = w * a / d[j];
          else
            values.entries[--upper] = w * a / d[i];
        });
        values.d[i] = factor / d[i];
      }
    });
  }

  PreconditionerOptions options_;
  bool both_;  // ssor: both triangles
  std::shared_ptr<const Order> order_;
  std::shared_ptr<const SweepPattern> pattern_;
  std::unique_ptr<LevelSolve<T>> levels_;  // on a host
  ContextPtr host_;                        // in which the matrix of a device is read
  std::unique_ptr<DeviceSweep<T>> on_device_;
  DeviceFactors<T>* factors_ = nullptr;  // on_device_ if the device found it
  std::uint64_t layouts_ = 0;            // how often on_device_ was made
};

}  // namespace

template <class T>
MadePreconditioner<T> make_gauss_seidel(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Relaxation<T>>(A, options, false);
}
template <class T>
MadePreconditioner<T> make_ssor(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Relaxation<T>>(A, options, true);
}

#define PROTEAN_INSTANTIATE(T)                                                       \
  template MadePreconditioner<T> make_gauss_seidel<T>(const LinearOperator<T>&,      \
                                                      const PreconditionerOptions&); \
  template MadePreconditioner<T> make_ssor<T>(const LinearOperator<T>&, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
