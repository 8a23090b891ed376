// Incomplete factors: ic0, ic: M = L L^T (Meijerink and van der Vorst, Math. Comp. 31 (1977) 148); ilu0, ilu: M = L U.
// Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 10.3. M agrees with A in all kept
// entries (factor_pattern.hpp). With ordering colours the rows are eliminated colour after colour (Saad, section 12.4),
// and L has the entries of earlier colours, wherever they lie in A.
//
// Both are stored as M = (I + L) D^-1 (I + U): L strictly lower, U strictly upper, D^-1 the pivots (factorization.hpp).
//
// Memory: 4 bytes and a value for each kept entry off the diagonal, 4 bytes for each of L in ic, 21 bytes and two
// values a row; solve sweeps: two values a row more. After new values on a host the values twice, since fresh memory
// costs as much as the factors. Solves by levels, on a host with several threads if that is faster: 4 bytes an entry
// and 52 bytes a row more. While it is set up, n values for each thread.
//
// On a device with ordering colours the device colours the rows (device_colours.hpp; if it hands that over, the host
// colours them and finds the pattern), factors and solves (device_factors.hpp), and new values of A do not come to the
// host. Else the host factors, and keeps the pattern of the factors: 4 bytes an entry, 24 a row. The device gets the
// factors in the order of its solves (device_solves.hpp).
// New values go to the same addresses.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/parallel.hpp"
#include "core/statistics.hpp"
#include "operators/multi_product.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/factors/colours.hpp"
#include "preconditioners/factors/device/device_colours.hpp"
#include "preconditioners/factors/device/device_factors.hpp"
#include "preconditioners/factors/device/device_solves.hpp"
#include "preconditioners/factors/factor_pattern.hpp"
#include "preconditioners/factors/factorization.hpp"
#include "preconditioners/triangular/level_solve.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {
namespace {

// Rows from which it is measured whether several threads solve faster than one.
constexpr std::int64_t worth_a_choice = 1 << 16;
// Colours up to which ordering auto takes them on a device: each is two kernels of a solve.
constexpr std::int32_t most_colours = 64;

template <class T>
class Incomplete final : public BySolving<T>, public HasMultiProduct<T> {
 public:
  Incomplete(const LinearOperator<T>& A, const PreconditionerOptions& options, bool symmetric,
             std::int64_t fill)
      : BySolving<T>(A),
        options_(options),
        symmetric_(symmetric),
        fill_(fill),
        name_(std::string(symmetric ? "ic" : "ilu") + (fill == 0 ? "0" : "")) {
    if (options.ordering == FactorOrdering::colours && options.solve == TriangularSolve::cusparse)
      throw BadArgument(fmt::format(
          "{} with ordering colours solves colour after colour; leave solve: cusparse out, or take ordering: "
          "natural",
          name_));
  }

  std::string_view name() const noexcept override { return name_; }
  bool symmetric() const noexcept override { return symmetric_; }
  std::vector<PreconditionerFigure> figures() const override {
    if (!pattern_ && factors_)
      return {{"shift", shift_},
              {"entries", static_cast<double>(factors_->entries() + this->rows())},
              {"colours", static_cast<double>(factors_->stages())}};
    if (!pattern_) return {};
    std::vector<PreconditionerFigure> found = {
        {"shift", shift_},
        {"entries", static_cast<double>(pattern_->col.size() + pattern_->n)},
        {pattern_->coloured ? "colours" : "levels", static_cast<double>(pattern_->forward.count())}};
    if (options_.solve == TriangularSolve::sweeps)
      found.push_back({"sweeps", static_cast<double>(options_.sweeps)});
    if (measured_.levels >= 0) found.push_back({"levels_microseconds", 1e6 * measured_.levels});
    if (measured_.cusparse >= 0) found.push_back({"cusparse_microseconds", 1e6 * measured_.cusparse});
    return found;
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
    const bool analyse = pattern_changed || (!pattern_ && !factors_);
    if (factors_ && !analyse) return refactor(A);
    if (on_device && coloured_there(A)) return;
    CsrMatrix<T> csr = finite_rows(A, host, name());
    // The places of mirrored entries, which a factorization without fill needs anyway, also find what is not symmetric.
    const bool by_mirrors =
        symmetric_ && fill_ == 0 && (analyse ? !may_colour(on_device) : !pattern_->coloured && !left_out_);
    bool left_out = false;
    const auto take_mirrored = [&] {
      const std::int64_t all = csr.nonzeros();
      csr = mirrored_entries(name(), fill_ > 0, host, csr);
      left_out = csr.nonzeros() < all;
    };
    if (symmetric_ && !by_mirrors) take_mirrored();
    Vector<T> diagonal;
    const auto read_diagonal = [&] {
      diagonal = usable_diagonal<T>(name(), host, csr, options_.zero_diagonal, symmetric_);
    };
    if (!by_mirrors) read_diagonal();
    std::shared_ptr<const SweepPattern> pattern = pattern_;
    std::shared_ptr<const FactorPlan> plan = plan_;
    std::unique_ptr<LevelSolve<T>> levels;
    Colours colours;
    if (analyse) {
      pattern = find_pattern(host, csr, on_device, colours);
      if (on_device && pattern->coloured && options_.solve != TriangularSolve::sweeps)
        return begin_on_device(A, csr, std::move(pattern), left_out);
      plan = std::make_shared<FactorPlan>(plan_factors(host, *pattern, symmetric_));
    }
    if (by_mirrors) {
      if (!check_mirrored(*host, csr, *pattern, plan->mirror, analyse)) {
        take_mirrored();
        pattern = find_pattern(host, csr, on_device, colours);
        plan = std::make_shared<FactorPlan>(plan_factors(host, *pattern, symmetric_));
      }
      read_diagonal();
    }
    SweepValues<T> values =
        analyse || spare_.d.size() != pattern->n ? SweepValues<T>(host, *pattern) : std::move(spare_);
    const double shift = factor<T>(task(), host, csr, diagonal, *pattern, *plan, fill_ > 0, values);
    if (on_device) {
      if (analyse) {
        MeasuredSolves measured;
        on_device_ = make_solves<T>(context, *pattern, values, options_.solve, options_.sweeps, measured);
        measured_ = measured, factors_ = nullptr, ++layouts_;
      } else {
        this->change_arrays([&] { on_device_->set_values(*pattern, values); });
      }
    } else {
      const bool exact = options_.solve != TriangularSolve::sweeps;
      if (!exact && work_.size() != 2 * pattern->n) work_ = Buffer<T>(host, 2 * pattern->n);
      if (analyse && exact)
        levels = pattern->coloured ? LevelSolve<T>::make(host, *pattern, colours.of, colours.count)
                                   : LevelSolve<T>::make(host, *pattern);
      if (levels) {
        levels->set_values(*pattern, values);
        if (!pattern->coloured && !is_faster(*levels, *pattern, values)) levels.reset();
      }
      if (analyse) levels_ = std::move(levels);
      if (levels_ && !analyse) levels_->set_values(*pattern, values);
      // What new values were written to, or those before, are written to the next time.
      std::swap(values_, values);
      spare_ = analyse ? SweepValues<T>() : std::move(values);
      if (levels_) spare_ = std::move(values_), values_ = SweepValues<T>();
    }
    pattern_ = std::move(pattern), plan_ = std::move(plan), shift_ = shift, left_out_ = left_out;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (on_device_) return on_device_->solve(r, z);
    if (levels_) return levels_->solve(r, z);
    if (options_.solve != TriangularSolve::sweeps) return solve_in_order<T>(*pattern_, values_, r, z);
    const std::lock_guard lock(work_mutex_);
    jacobi_sweeps<T>(*this->context(), *pattern_, values_, options_.sweeps, r, z, work_.data(),
                     work_.data() + pattern_->n);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return (pattern_ ? pattern_->bytes() : 0) + (plan_ ? plan_->bytes() : 0) + values_.bytes() +
           spare_.bytes() + work_.bytes() + (levels_ ? levels_->bytes() : 0) +
           (on_device_ ? on_device_->bytes() : 0);
  }

  std::string_view no_multi_product() const noexcept override {
    if (this->context()->space() == Space::device) return "factors on a device are applied column by column";
    if (options_.solve == TriangularSolve::sweeps) return "Jacobi sweeps are applied column by column";
    if (this->context()->deterministic())
      return "in deterministic mode factors are applied column by column, since a column alone adds in "
             "another order";
    return {};
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    this->require_setup();
    const Context& context = *this->context();
    if (alpha == T(0)) return multi_scale<T>(context, beta, Y);
    if (beta == T(0)) {
      solve(X, Y);
      if (alpha != T(1)) multi_scale<T>(context, alpha, Y);
      return;
    }
    MultiVector<T> product(this->context(), Y.rows, Y.columns, Y.layout);
    const MultiVectorView<T> z = product;
    solve(X, z);
    for (std::int64_t i = 0; i < Y.rows; ++i)
      for (std::int64_t j = 0; j < Y.columns; ++j) Y(i, j) = alpha * z(i, j) + beta * Y(i, j);
  }

 private:
  void solve(const MultiVectorView<const T>& R, const MultiVectorView<T>& Z) const {
    levels_ ? levels_->solve(R, Z) : solve_in_order<T>(*pattern_, values_, R, Z);
  }

  FactorTask task() const { return {name(), symmetric_, options_.zero_diagonal}; }

  // Whether rows are eliminated colour after colour, as far as the options say, and whether they ask for it.
  bool asks_for_colours() const noexcept {
    return fill_ == 0 && options_.ordering == FactorOrdering::colours;
  }
  bool may_colour(bool on_device) const noexcept {
    return asks_for_colours() || (fill_ == 0 && options_.ordering == FactorOrdering::automatic && on_device &&
                                  options_.solve == TriangularSolve::automatic);
  }

  // The whole setup for a new pattern on a device. False, and nothing is changed, if the host begins it.
  bool coloured_there(const LinearOperator<T>& A) {
    if (!may_colour(true) || options_.solve == TriangularSolve::sweeps) return false;
    const std::optional<CsrMatrix<T>> there = csr_of(A);
    if (!there || there->pattern.space != Space::device) return false;
    std::optional<ColouredRows> rows = colour_on_device(
        A.context(), there->pattern, true, asks_for_colours() ? most_colours_on_device : most_colours);
    if (!rows) return false;
    take(std::make_unique<DeviceFactors<T>>(A.context(), std::move(*rows)), *there, nullptr);
    return true;
  }

  // Factors on the device; pattern: in host memory, if the host found it.
  void take(std::unique_ptr<DeviceFactors<T>> made, const CsrMatrix<T>& there,
            std::shared_ptr<const SweepPattern> pattern) {
    const double shift = factor_on_device<T>(task(), host_, *made, there);
    made->keep();
    factors_ = made.get(), on_device_ = std::move(made), ++layouts_;
    measured_ = {}, shift_ = shift, plan_ = nullptr, left_out_ = false;
    pattern_ = std::move(pattern);
  }

  // The pattern in the order that the options ask for, with its stages; the colours if it is by colours.
  std::shared_ptr<const SweepPattern> find_pattern(const ContextPtr& host, const CsrMatrix<T>& csr,
                                                   bool on_device, Colours& colours) const {
    if (may_colour(on_device)) {
      colours = colour<T>(host, csr);
      if (asks_for_colours() || colours.count <= most_colours)
        return pattern_by_colours(host, csr.pattern, colours);
    }
    auto made = pattern_of_factors(host, csr.pattern, fill_, name());
    find_levels(host, *made, on_device);
    return made;
  }

  void begin_on_device(const LinearOperator<T>& A, const CsrMatrix<T>& on_host,
                       std::shared_ptr<const SweepPattern> pattern, bool left_out) {
    const ContextPtr& context = A.context();
    auto made = std::make_unique<DeviceFactors<T>>(context, *pattern, true);
    const std::optional<CsrMatrix<T>> there = csr_of(A);
    take(std::move(made), there && there->pattern.space == Space::device ? *there : upload(context, on_host),
         std::move(pattern));
    left_out_ = left_out;
  }

  // New values of the pattern, which stay on the device.
  void refactor(const LinearOperator<T>& A) {
    std::optional<CsrMatrix<T>> there = csr_of(A);
    if (!there || there->pattern.space != Space::device)
      there = upload(A.context(), rows_on_host(A, host_, name()));
    // The device does not see the entries that the factors leave out, which may have grown.
    if (left_out_) refuse_asymmetry<T>(name(), false, asymmetry<T>(*host_, rows_on_host(A, host_, name())));
    try {
      shift_ = factor_on_device<T>(task(), host_, *factors_, *there);
    } catch (...) {
      factors_->drop();
      throw;
    }
    this->change_arrays([&] { factors_->keep(); });
  }

  // Measured on large matrices: small ones lie in caches, where several threads lose little.
  bool is_faster(const LevelSolve<T>& levels, const SweepPattern& pattern,
                 const SweepValues<T>& values) const {
    if (pattern.n < worth_a_choice) return true;
    const ContextPtr& context = this->context();
    Vector<T> r(context, pattern.n), z(context, pattern.n);
    fill<T>(*context, T(1), r);
    const auto seconds = [&](bool by_levels) {
      const auto begin = std::chrono::steady_clock::now();
      by_levels ? levels.solve(r, z) : solve_in_order<T>(pattern, values, r, z);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    seconds(true);  // the first one also waits for the memory
    return seconds(true) < seconds(false);
  }

  // Whether the pattern of csr is symmetric, by the places of the mirrored entries in these factors in natural order;
  // throws as refuse_asymmetry() then. may_be_other: whether it is not known yet.
  bool check_mirrored(const Context& context, const CsrMatrix<T>& csr, const SweepPattern& pattern,
                      const Buffer<std::int32_t>& mirror, bool may_be_other) const {
    struct Found {
      T difference = 0, least_row = std::numeric_limits<T>::infinity();
      bool symmetric = true;
    };
    const SparsityPattern& a = csr.pattern;
    // As many entries on either side, and each below the diagonal with another one above: then all have one.
    if (may_be_other &&
        pattern.lower_ptr[pattern.n] != pattern.upper_ptr[pattern.n] - pattern.lower_ptr[pattern.n])
      return false;
    const int workers = useful_parts(context, csr.nonzeros());
    std::vector<Found> found(static_cast<std::size_t>(workers));
    parallel(workers, [&](int part, int parts) {
      const Range rows = even_range(csr.rows(), part, parts);
      Found own;
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const std::int64_t first = a.row_ptr[i], end = a.row_ptr[i + 1];
        T size = 0;
        for (std::int64_t p = first; p < end; ++p) size = std::max(size, std::abs(csr.values[p]));
        own.least_row = std::min(own.least_row, size);
        const Range lower = pattern.lower(i);
        for (std::int64_t p = lower.begin; p < lower.end; ++p) {
          const std::int32_t k = pattern.col[p];
          const std::int64_t behind = a.row_ptr[k + 1] - 1 - mirror[p];
          if (may_be_other && (mirror[p] < 0 || a.col[behind] != i)) {
            own.symmetric = false;
            break;
          }
          own.difference =
              std::max(own.difference, std::abs(csr.values[first + p - lower.begin] - csr.values[behind]));
        }
      }
      found[static_cast<std::size_t>(part)] = own;
    });
    Found all;
    for (const Found& one : found) {
      all.difference = std::max(all.difference, one.difference);
      all.least_row = std::min(all.least_row, one.least_row);
      all.symmetric = all.symmetric && one.symmetric;
    }
    if (!all.symmetric) return false;
    refuse_asymmetry<T>(name(), false, static_cast<double>(all.difference),
                        static_cast<double>(all.least_row), context, [&] { return csr; });
    return true;
  }

  PreconditionerOptions options_;
  bool symmetric_;
  std::int64_t fill_;
  std::string name_;
  double shift_ = 0;
  ContextPtr host_;  // in which the matrix of a device is factored
  std::shared_ptr<const SweepPattern> pattern_;
  std::shared_ptr<const FactorPlan> plan_;
  SweepValues<T> values_;                  // on a host, unless levels_ has them
  SweepValues<T> spare_;                   // for the next new values on a host
  std::unique_ptr<LevelSolve<T>> levels_;  // if several threads of a host are faster
  mutable std::mutex work_mutex_;
  mutable Buffer<T> work_;  // of sweeps on a host
  std::unique_ptr<DeviceSweep<T>> on_device_;
  DeviceFactors<T>* factors_ = nullptr;  // on_device_ if the device factors
  std::uint64_t layouts_ = 0;            // how often on_device_ was made
  bool left_out_ = false;                // entries without a mirrored one
  MeasuredSolves measured_;
};

}  // namespace

#define PROTEAN_MAKER(name, symmetric, fill)                                                     \
  template <class T>                                                                             \
  MadePreconditioner<T> name(const LinearOperator<T>& A, const PreconditionerOptions& options) { \
    return std::make_unique<Incomplete<T>>(A, options, symmetric, fill);                         \
  }                                                                                              \
  template MadePreconditioner<float> name<float>(const LinearOperator<float>&,                   \
                                                 const PreconditionerOptions&);                  \
  template MadePreconditioner<double> name<double>(const LinearOperator<double>&,                \
                                                   const PreconditionerOptions&);
PROTEAN_MAKER(make_ic0, true, 0)
PROTEAN_MAKER(make_ic, true, options.fill)
PROTEAN_MAKER(make_ilu0, false, 0)
PROTEAN_MAKER(make_ilu, false, options.fill)
#undef PROTEAN_MAKER

}  // namespace protean::detail
