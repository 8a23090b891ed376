// A preconditioner in float for a solve in double precision. The entries of A are rounded to float, M_f is what its
// type makes of them, and M^-1 r = 2^-e M_f^-1 (2^e r rounded to float), with e such that any r fits into the range of
// float (round.hpp). Buttari, Dongarra, Kurzak, Luszczek and Tomov, ACM Trans. Math. Softw. 34 (2008) 17.
//
// An application reads and writes half of the bytes of M, and takes two more passes over vectors: 8 + 4 bytes a row
// each. Rounding r makes it a map that is linear, and symmetric, to about 6e-8 only.
//
// Memory: M_f, two vectors in float, 4 kB; for amg also the rounded A, with which its finest level computes. While it
// is set up, 4 bytes an entry for the rounded values, whose pattern is the one of A.
#include "preconditioners/narrow/float_storage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/transfer.hpp"
#include "operators/multi_product.hpp"
#include "operators/rows.hpp"
#include "preconditioners/narrow/round.hpp"
#include "preconditioners/sparse/level_format.hpp"

namespace protean::detail {
namespace {

// A in float. It has its entries while a preconditioner is set up, and products if that needs them later.
class RoundedOperator final : public LinearOperator<float>, public HasRows<float>, public HasDiagonal<float> {
 public:
  RoundedOperator(ContextPtr context, Shape shape) : LinearOperator<float>(std::move(context), shape) {}

  std::string_view name() const noexcept override { return "rounded"; }
  Revision revision() const noexcept override { return {1, values_}; }
  Recording recording() const noexcept override { return product_ ? product_->recording() : Recording{}; }
  CsrMatrix<float> rows_as_csr() const override { return rows_; }
  void diagonal(VectorView<float> diagonal) const override {
    product_->abilities().diagonal->diagonal(diagonal);
  }

  // New entries, of the same pattern as before if there were any.
  void take(CsrMatrix<float> rows, bool with_products, bool in_csr) {
    ++values_;
    rows_ = std::move(rows);
    if (!with_products) return;
    const ContextPtr& context = this->context();
    const CsrMatrix<float> here = rows_.pattern.space == context->space() ? rows_ : upload(context, rows_);
    if (product_) return product_->update_values(here, SamePattern());
    std::string format = in_csr ? "csr" : "";
    product_ = in_format<float>(context, here, rows_.pattern, format);
  }
  void drop_rows() noexcept { rows_ = {}; }
  std::size_t bytes() const noexcept { return product_ ? product_->bytes() : 0; }

 protected:
  void do_apply(float alpha, VectorView<const float> x, float beta, VectorView<float> y) const override {
    product_->apply(alpha, x, beta, y);
  }

 private:
  CsrMatrix<float> rows_;
  std::unique_ptr<AssembledMatrix<float>> product_;
  std::uint64_t values_ = 0;
};

// M_f and what it is made of.
struct NarrowPart {
  std::unique_ptr<RoundedOperator> A;
  std::unique_ptr<Preconditioner<float>> M;
};

class FloatStorage final : public Preconditioner<double>, public HasMultiProduct<double> {
 public:
  FloatStorage(const PreconditionerEntry& entry, const LinearOperator<double>& A,
               const PreconditionerOptions& options)
      : Preconditioner<double>(A.context(), A.shape()),
        entry_(entry),
        options_(options),
        with_products_(entry.id == "amg"),
        numbers_(A.context(), round_numbers) {
    if (options.near_null_space && may_be_double()) {
      // Those of the caller live as long as this call.
      const MultiVectorView<const double> given = options.near_null_space->view();
      vectors_ = MultiVector<double>(Context::host(1), given.rows, given.columns);
      for (std::int64_t k = 0; k < given.columns; ++k)
        for (std::int64_t i = 0; i < given.rows; ++i) vectors_.view()(i, k) = given(i, k);
    }
    narrow_ = make_narrow();
    keep_vectors();
  }

  std::string_view name() const noexcept override { return entry_.id; }
  bool symmetric() const noexcept override { return entry_.symmetric; }
  std::string_view storage() const noexcept override { return wide_ ? "double" : "float"; }
  std::string storage_reason() const override { return reason_; }
  std::size_t bytes() const noexcept override {
    const auto vectors = static_cast<std::size_t>(vectors_.rows() * vectors_.columns()) * sizeof(double);
    if (wide_) return wide_->bytes() + own_bytes() + vectors;
    return narrow_.M->bytes() + narrow_.A->bytes() + own_bytes() + vectors;
  }
  std::vector<PreconditionerFigure> figures() const override {
    return wide_ ? wide_->figures() : narrow_.M->figures();
  }
  Recording recording() const noexcept override {
    Recording work = wide_ ? wide_->recording() : narrow_.M->recording();
    // Versions of two objects must not be taken for each other.
    constexpr std::uint64_t versions_of_one = std::uint64_t{1} << 32;
    if (work.version != 0) work.version += made_ * versions_of_one;
    // What M_f writes is not part of the result.
    if (!wide_) work.heeds_stop = true;
    return work;
  }

 protected:
  void setup(const LinearOperator<double>& A, bool pattern_changed) override {
    if (wide_ && !pattern_changed) return wide_->ensure(A);
    std::string why;
    NarrowPart other;
    const bool anew = pattern_changed && (wide_ || narrow_.A->revision().values > 0);
    if (anew) other = make_narrow();
    NarrowPart& narrow = anew ? other : narrow_;
    int centre = centre_;
    bool failed = false;
    try {
      set_up(narrow, A, centre);
      why = shift_of(*narrow.M);
    } catch (const BadMatrix& error) {
      if (!may_be_double())
        throw BadMatrix(fmt::format(
            "{} (the entries were rounded to float, since storage is float; storage: double has more digits "
            "and a larger range)",
            error.what()));
      why = error.what(), failed = true;
    }
    if (may_be_double() && !why.empty()) {
      try {
        return take_double(A, std::move(why));
      } catch (const BadMatrix&) {
        if (failed) throw;
      } catch (const OutOfMemory&) {
        if (failed) throw;
      }
      why = "storage float needs a shift, and storage double could not be set up";
    }
    if (wide_) keep_vectors(), wide_.reset();
    if (anew) narrow_ = std::move(other), ++made_;
    centre_ = centre, reason_ = std::move(why), lost_ = false;
  }

  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    if (wide_) return wide_->apply(alpha, x, beta, y);
    require_usable();
    const Context& context = *this->context();
    if (alpha == 0) return scale<double>(context, beta, y);
    const std::lock_guard lock(mutex_);
    round_vector(context, x, centre_, r_, numbers_.data());
    narrow_.M->apply(r_.view(), z_.view());
    widen_vector(context, alpha, z_, numbers_.data(), beta, y);
  }

  std::string_view no_multi_product() const noexcept override {
    const std::string_view one = "it is applied column by column";
    if (wide_) {
      const Ability<HasMultiProduct<double>> several = wide_->abilities().multi_product;
      return several ? several->no_multi_product() : one;
    }
    if (this->context()->space() == Space::device) return one;
    const Ability<HasMultiProduct<float>> several = narrow_.M->abilities().multi_product;
    return several ? several->no_multi_product() : one;
  }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    if (wide_) return wide_->abilities().multi_product->do_multi_apply(alpha, X, beta, Y);
    require_usable();
    const Context& context = *this->context();
    if (alpha == 0) return multi_scale<double>(context, beta, Y);
    const std::lock_guard lock(mutex_);
    if (R_.columns() != X.columns || R_.layout() != X.layout) {
      R_ = MultiVector<float>(this->context(), X.rows, X.columns, X.layout);
      Z_ = MultiVector<float>(this->context(), X.rows, X.columns, X.layout);
      scales_ = Buffer<double>(this->context(), (context.threads() + 1) * X.columns);
    }
    round_columns(context, X, centre_, R_, scales_.data());
    multi_apply<float>(*narrow_.M, R_, Z_);
    widen_columns(context, alpha, Z_, scales_.data(), beta, Y);
  }

 private:
  bool may_be_double() const noexcept { return options_.storage == PreconditionerStorage::automatic; }
  PreconditionerOptions options_of_part() const {
    PreconditionerOptions options = options_;
    options.storage = PreconditionerOptions().storage;
    if (options.near_null_space && vectors_.columns() > 0) options.near_null_space = &vectors_;
    return options;
  }
  NarrowPart make_narrow() const {
    NarrowPart made;
    made.A = std::make_unique<RoundedOperator>(this->context(), this->shape());
    made.M = entry_.make_f32(*made.A, options_of_part());
    return made;
  }

  void set_up(NarrowPart& narrow, const LinearOperator<double>& A, int& centre) {
    const ContextPtr& context = A.context();
    std::optional<CsrMatrix<double>> entries;
    if (context->space() == Space::device) entries = csr_of(A);
    ContextPtr there = context;
    if (!entries || entries->pattern.space == Space::host) {
      there = context->space() == Space::host ? context : Context::host();
      entries = rows_on_host(A, there, name());
    }
    RoundedRows rounded = round_rows(there, *entries);
    if (rounded.bad_row >= 0)
      throw BadMatrix(fmt::format(
          "{} with storage float needs entries from {:.1e} to {:.1e} in absolute value, but the entries of "
          "row {} (counted from 0) are not: neither its largest, nor its diagonal entry may be smaller; scale "
          "the matrix (D A D with d_i = 1 / sqrt |a_ii|), or take storage: double",
          name(), least_rounded, most_rounded, rounded.bad_row));
    try {
      narrow.A->take(std::move(rounded.csr), with_products_, options_.level_format == LevelFormat::csr);
    } catch (...) {
      // Its products may have changed.
      if (&narrow == &narrow_) lost_ = true, this->forget();
      throw;
    }
    struct Dropped {
      RoundedOperator& A;
      ~Dropped() { A.drop_rows(); }
    } const dropped{*narrow.A};
    narrow.M->ensure(*narrow.A);
    // Then r and M^-1 r are about as far from the ends of the range.
    centre = rounded.largest > 0 ? std::ilogb(rounded.largest) / 2 : 0;
  }

  // Why double is to be preferred; empty if it is not.
  static std::string shift_of(const Preconditioner<float>& M) {
    for (const PreconditionerFigure& one : M.figures())
      if (one.name == "shift" && one.value > 0)
        return fmt::format("in float the factorization needs A + {:.3g} D instead of A", one.value);
    return {};
  }

  void take_double(const LinearOperator<double>& A, std::string why) {
    if (wide_) {
      wide_->ensure(A);
    } else {
      auto made = entry_.make_f64(A, options_of_part());
      made->ensure(A);
      wide_ = std::move(made), narrow_ = {}, ++made_;
      r_ = {}, z_ = {}, R_ = {}, Z_ = {}, scales_ = {};
    }
    reason_ = std::move(why);
  }

  void require_usable() const {
    if (this->setups() == 0)
      throw BadArgument(
          fmt::format("the {} preconditioner is applied before ensure(A) has set it up", name()));
    if (lost_)
      throw BadArgument(
          fmt::format("the {} preconditioner has lost its values, because its last ensure(A) failed while it "
                      "changed them; call ensure(A) again",
                      name()));
  }
  void keep_vectors() {
    r_ = Vector<float>(this->context(), this->rows()), z_ = Vector<float>(this->context(), this->rows());
  }
  std::size_t own_bytes() const noexcept {
    return numbers_.bytes() + scales_.bytes() +
           static_cast<std::size_t>(r_.size() + z_.size() + R_.rows() * R_.columns() +
                                    Z_.rows() * Z_.columns()) *
               sizeof(float);
  }

  const PreconditionerEntry& entry_;
  PreconditionerOptions options_;
  bool with_products_;
  MultiVector<double> vectors_;  // near the null space, for a part that is made later
  // One of them; M in double once storage auto has found a reason, which holds until the pattern changes.
  NarrowPart narrow_;
  std::unique_ptr<Preconditioner<double>> wide_;
  std::string reason_;
  std::uint64_t made_ = 0;  // how often another one has taken the place
  int centre_ = 0;
  bool lost_ = false;
  mutable std::mutex mutex_;  // of the vectors
  mutable Buffer<double> numbers_;
  mutable Vector<float> r_, z_;
  mutable MultiVector<float> R_, Z_;
  mutable Buffer<double> scales_;  // of columns
};

}  // namespace

bool stores_floats(std::string_view id, const PreconditionerOptions& options) {
  // auto gives the option to the type that it takes.
  if (options.storage == PreconditionerStorage::double_precision || id == "auto") return false;
  if (id != "amg" || options.setup != AmgSetup::classical) return true;
  if (options.storage == PreconditionerStorage::single_precision)
    throw BadArgument(
        "storage float is not for amg with setup classical, which computes in double precision; take "
        "storage: double, "
        "or setup: aggregation");
  return false;
}

std::unique_ptr<Preconditioner<double>> make_float_storage(const PreconditionerEntry& entry,
                                                           const LinearOperator<double>& A,
                                                           const PreconditionerOptions& options) {
  return std::make_unique<FloatStorage>(entry, A, options);
}

}  // namespace protean::detail
