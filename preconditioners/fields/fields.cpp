#include "preconditioners/fields/fields.hpp"

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/fields/cells.hpp"
#include "preconditioners/fields/found.hpp"
#include "preconditioners/fields/inner.hpp"
#include "preconditioners/fields/layout.hpp"
#include "preconditioners/fields/recipes/cpr.hpp"
#include "preconditioners/fields/recipes/schur.hpp"
#include "preconditioners/sparse/level_format.hpp"

namespace protean::detail {
namespace {

// One block, or a Schur complement, as a matrix of the catalogue in the context of the solve.
template <class T>
void put(std::unique_ptr<AssembledMatrix<T>>& matrix, const ContextPtr& context, const CsrMatrix<T>& csr) {
  const bool on_host = context->space() == Space::host;
  std::string format = "csr";
  matrix = in_format<T>(context, on_host ? csr : upload(context, csr), csr.pattern, format);
}

template <class T>
class Fields final : public BySolving<T> {
 public:
  Fields(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : BySolving<T>(A), options_(options), specs_(inner_specs(options.inner)) {
    variable_ = is_variable_of_fields(options), symmetric_ = is_symmetric_of_fields(options);
    if (options.schur_operator) {
      given_ = given_complement<T>(options);
      options_.schur_operator = nullptr;  // its owner may go
      has_given_ = true;
    }
    if (fields_are_found(options)) return;
    named_ = named_fields(options, A.rows());
    require_suited(options.recipe, named_, specs_);
  }

  std::string_view name() const noexcept override { return "fields"; }
  bool symmetric() const noexcept override { return symmetric_ && !takes_unsymmetric(); }
  bool variable() const noexcept override { return variable_; }
  std::string description() const override { return parts_ ? parts_->text : std::string(); }
  // Takes effect at the next setup.
  void let_be_unsymmetric(bool may) {
    if (may != may_be_unsymmetric_) this->forget();
    may_be_unsymmetric_ = may;
  }
  std::vector<PreconditionerFigure> figures() const override {
    if (!parts_) return {};
    return {{"fields", static_cast<double>(parts_->layout->fields.size())}};
  }
  Recording recording() const noexcept override {
    Recording all = BySolving<T>::recording();
    all.allowed = !variable_;
    if (!parts_) return all;
    for (const Inner& inner : parts_->inner) {
      if (!inner.M) continue;
      const Recording one = inner.M->recording();
      all.allowed = all.allowed && one.allowed;
      all.version = all.version == 0 || one.version == 0 ? 0 : all.version + one.version;
    }
    if (all.version != 0) all.version += renewals_ << 32;  // other arrays
    return all;
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const ContextPtr& context = this->context();
    const ContextPtr host = context->space() == Space::host ? context : Context::host();
    const CsrMatrix<T> csr = finite_rows(A, host, name());
    const bool symmetric = asymmetry<T>(*host, csr) <= symmetry_tolerance<T>;
    FoundFields found;
    if (fields_are_found(options_)) found = find_fields(csr, symmetric);
    FieldList fields = fields_are_found(options_) ? std::move(found.fields) : named_;
    RecipeChoice choice{options_.recipe, {}};
    if (choice.recipe == Recipe::automatic)
      choice = automatic_recipe(*host, csr, fields, symmetric, may_be_unsymmetric_, specs_);
    if (choice.first > 0) fields = with_first(fields, choice.first);
    require_suited(choice.recipe, fields, specs_);
    const bool commuted = takes_commutator(csr, fields, choice.recipe);
    // The old blocks serve until the new ones are whole: a renewal that fails changes nothing.
    auto made = std::make_unique<Parts>();
    if (!pattern_changed && parts_ && parts_->layout->serves(fields, choice.recipe, commuted, !has_given_))
      made->layout = parts_->layout;
    else
      made->layout = make_layout(context, host, csr.pattern, fields, choice.recipe, commuted, !has_given_);
    made->why = std::move(choice.reason);
    made->r = Vector<T>(context, csr.rows()), made->z = Vector<T>(context, csr.rows());
    if (choice.recipe == Recipe::symmetric || of_cpr(choice.recipe) || commuted)
      made->t = Vector<T>(context, 2 * csr.rows());
    fill(*made, host, A, csr, found.what);
    parts_ = std::move(made), ++renewals_;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const std::lock_guard lock(mutex_);
    const Parts& p = *parts_;
    p.layout->permutation.apply(r, p.r.view());
    combine(p);
    p.layout->permutation.apply_inverse(VectorView<const T>(p.z), z);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    if (!parts_) return 0;
    const Parts& p = *parts_;
    const bool on_host = this->context()->space() == Space::host;
    std::size_t sum = static_cast<std::size_t>(p.r.size() + p.z.size() + p.t.size() + p.inverse.size() +
                                               p.ones.size() + p.sum.size()) *
                      sizeof(T);
    const auto of_matrix = [&](const AssembledMatrix<T>* matrix, std::size_t pattern) {
      return (matrix ? matrix->bytes() : 0) +
             (matrix && on_host ? 0 : pattern);  // csr shares the pattern of the host
    };
    for (std::size_t k = 0; k < p.layout->patterns.size(); ++k)
      sum += p.layout->patterns[k].bytes() +
             of_matrix(p.blocks[k].get(), p.layout->patterns[k].pattern().bytes());
    if (p.schur && !has_given_)
      sum += p.layout->schur.bytes() + of_matrix(p.schur.get(), p.layout->schur.pattern().bytes());
    if (has_given_) sum += given_.bytes() + (on_host ? 0 : p.schur->bytes());
    if (p.pressure) sum += p.pressure->bytes() + static_cast<std::size_t>(p.weights.size()) * sizeof(T);
    for (const Inner& inner : p.inner) sum += inner.M ? inner.M->bytes() : 0;
    const std::size_t places = on_host ? 0 : 8 * static_cast<std::size_t>(p.layout->permutation.size());
    return sum + places + p.layout->fields.of_row.size() * 4;
  }

 private:
  // What solves with a block, with the Schur complement, or for the recipes cpr-.. with the equation of the pressure
  // and with the whole matrix.
  struct Inner {
    std::string called, type, method;
    std::unique_ptr<Preconditioner<T>> M;  // null for none
  };
  struct Parts {
    std::shared_ptr<const FieldLayout> layout;
    std::string text;  // for a person
    std::string why;   // recipe auto took this one
    std::vector<std::unique_ptr<AssembledMatrix<T>>> blocks;
    std::unique_ptr<AssembledMatrix<T>> schur;
    T sign = 1, factor = 1;                        // of the assembled complement
    std::unique_ptr<AssembledMatrix<T>> pressure;  // of cpr-.., and -W_1, -W_2 ..
    Vector<T> weights;
    std::vector<Inner> inner;
    mutable Vector<T> r, z, t;
    Vector<T> inverse, ones;  // D^-1 of the commutator, and of P if there is a constant
    mutable Vector<T> sum;

    const AssembledMatrix<T>& block(std::int64_t i, std::int64_t j) const noexcept {
      return *blocks[layout->at(i, j)];
    }
    VectorView<T> part(Vector<T>& v, std::int64_t i) const noexcept {
      const VectorView<T> all = v.view();
      return {all.data + layout->begin[static_cast<std::size_t>(i)], layout->rows_of(i), all.space};
    }
  };

  // Whether recipe auto has taken, or may take, an M that is not symmetric although A is.
  bool takes_unsymmetric() const noexcept {
    if (options_.recipe != Recipe::automatic || !may_be_unsymmetric_) return false;
    return !parts_ || !is_symmetric_recipe(parts_->layout->recipe);
  }
  bool takes_commutator(const CsrMatrix<T>& csr, const FieldList& fields, Recipe recipe) const {
    if (!of_schur(recipe) || options_.schur == SchurComplement::diagonal) return false;
    if (!is_zero_block(csr, fields, 1))
      throw BadMatrix(fmt::format(
          "fields: schur commutator is for a zero block of field {}, and this one is not; take schur "
          "diagonal",
          fields.names[1]));
    return true;
  }
  // The matrices of all blocks with their values, and the preconditioners.
  void fill(Parts& p, const ContextPtr& host, const LinearOperator<T>& A, const CsrMatrix<T>& csr,
            const std::string& found) const {
    const ContextPtr& context = this->context();
    const std::int64_t count = p.layout->fields.size();
    const bool schur = of_schur(p.layout->recipe);
    std::vector<CsrMatrix<T>> values(p.layout->patterns.size());
    p.blocks.resize(values.size());
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < count; ++j) {
        const std::size_t k = p.layout->at(i, j);
        if (!p.layout->in_use[k]) continue;
        values[k] = p.layout->patterns[k].of(host, csr);
        const bool used =
            i == j ? !(schur && i == 1) : multiplies(p.layout->recipe, i, j) || p.layout->commuted;
        if (used) put(p.blocks[k], context, values[k]);
      }
    const std::string& first = p.layout->fields.names[0];
    if (of_cpr(p.layout->recipe)) {
      const CsrMatrix<T> pressure = make_pressure(p, host, csr, values);
      set_up_inner(p, first, fmt::format("field {}, of its equation", first), *p.pressure,
                   [&] { return default_inner(*host, pressure, first, false); });
      set_up_inner(p, std::string(whole_matrix), "the whole matrix", A, [] { return std::string("ilu0"); });
      return describe(p, found);
    }
    CsrMatrix<T> complement;
    if (schur) {
      complement = make_schur(p, host, values);
      put(p.schur, context, complement);
      if (maps_constant_to_zero(csr, p.layout->fields, 1)) {
        p.sum = Vector<T>(context, 1), p.ones = Vector<T>(context, p.layout->begin[2] - p.layout->begin[1]);
        protean::fill<T>(*context, T(1), p.ones.view());
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string& called = p.layout->fields.names[static_cast<std::size_t>(i)];
      if (schur && i == 1)
        set_up_schur(p, host, values, std::move(complement));
      else
        set_up_inner(p, called, fmt::format("field {}", called), *p.blocks[p.layout->at(i, i)],
                     [&] { return default_inner(*host, values[p.layout->at(i, i)], called, true); });
    }
    describe(p, found);
  }

  // The equation of the pressure and the weights, of cpr-...
  CsrMatrix<T> make_pressure(Parts& p, const ContextPtr& host, const CsrMatrix<T>& csr,
                             const std::vector<CsrMatrix<T>>& values) const {
    std::vector<CsrMatrix<T>> columns;
    for (std::int64_t i = 0; i < p.layout->fields.size(); ++i) columns.push_back(values[p.layout->at(i, 0)]);
    PressureEquation<T> made = pressure_equation(name(), host, csr, p.layout->fields, columns,
                                                 p.layout->recipe == Recipe::cpr_true_impes);
    require_no_overflow(*host, name(), made.matrix.values, made.matrix.nonzeros());
    put(p.pressure, this->context(), made.matrix);
    const auto size = static_cast<std::int64_t>(made.weights.size());
    p.weights = Vector<T>(this->context(), size);
    copy<T>(*this->context(), {made.weights.data(), size}, p.weights.view());
    return made.matrix;
  }

  CsrMatrix<T> make_schur(Parts& p, const ContextPtr& host, const std::vector<CsrMatrix<T>>& values) const {
    const CsrMatrix<T>& A11 = values[p.layout->at(1, 1)];
    const std::string called = fmt::format("fields: the block of field {}", p.layout->fields.names[0]);
    const Vector<T> diagonal =
        usable_diagonal<T>(called, host, values[p.layout->at(0, 0)], ZeroDiagonal::error);
    std::vector<T> inverse(static_cast<std::size_t>(diagonal.size()));
    for (std::int64_t i = 0; i < diagonal.size(); ++i)
      inverse[static_cast<std::size_t>(i)] = T(1) / diagonal[i];
    const bool commuted = p.layout->commuted;
    if (commuted) {
      p.inverse = Vector<T>(this->context(), diagonal.size());
      copy<T>(*this->context(), {inverse.data(), diagonal.size()}, p.inverse.view());
    }
    if (has_given_) {
      if (given_.rows() != A11.rows())
        throw ShapeMismatch(
            fmt::format("schur_operator has {} rows, and field {} has {}; they must be the same",
                        given_.rows(), p.layout->fields.names[1], A11.rows()));
      p.sign = sign_of_schur(host, values[p.layout->at(1, 0)], A11, values[p.layout->at(0, 1)], inverse);
      return given_;
    }
    CsrMatrix<T> made = p.layout->schur.of(host, values[p.layout->at(1, 0)], commuted ? nullptr : &A11,
                                           values[p.layout->at(0, 1)], inverse, p.sign);
    require_no_overflow(*host, name(), made.values, made.nonzeros());
    return made;
  }

  void set_up_schur(Parts& p, const ContextPtr& host, const std::vector<CsrMatrix<T>>& values,
                    CsrMatrix<T> complement) const {
    const std::string& called = p.layout->fields.names[1];
    bool local = false;
    const auto set_up = [&] {
      set_up_inner(p, called, fmt::format("field {}, of its Schur complement", called), *p.schur, [&] {
        return local ? std::string("jacobi") : default_inner(*host, complement, called, false);
      });
    };
    if (p.layout->commuted || has_given_ || inner_of(specs_, called).id != "auto") return set_up();
    const ContextPtr& context = this->context();
    std::unique_ptr<AssembledMatrix<T>> A01, A10, A11;
    put(A01, context, values[p.layout->at(0, 1)]), put(A10, context, values[p.layout->at(1, 0)]);
    if (values[p.layout->at(1, 1)].nonzeros() > 0) put(A11, context, values[p.layout->at(1, 1)]);
    ComplementProbe<T> probe(
        *A01, *A10, A11.get(), p.sign, [&](VectorView<T> r, VectorView<T> z) { inner(p, 0, r, z); },
        [&](VectorView<T> v) { project(p, v); });
    const std::vector<T> inverse = inverse_row_sums(complement);
    Vector<T> there(context, complement.rows());
    copy<T>(*context, {inverse.data(), there.size()}, there.view());
    local = probe.is_local(*p.schur, there.view());
    set_up();
    if (!local) return;
    p.factor = probe.factor([&](VectorView<T> r, VectorView<T> z) { schur(p, r, z); });
    if (p.factor == T(1)) return;
    complement = times(host, p.factor, complement);
    require_no_overflow(*host, name(), complement.values, complement.nonzeros());
    put(p.schur, context, complement);
    p.inner.pop_back();
    set_up();
  }
  // by_itself() is what option inner would have after the name, unless it names a type; what: the matrix, for a
  // message.
  template <class ByItself>
  void set_up_inner(Parts& p, const std::string& called, std::string_view what,
                    const LinearOperator<T>& matrix, const ByItself& by_itself) const {
    InnerSpec spec = inner_of(specs_, called);
    std::string type = spec.id;
    if (type == "auto") type = by_itself(), spec = inner_specs(fmt::format("{} {}", called, type)).front();
    Inner made{called, std::move(type), spec.solver.method, nullptr};
    try {
      made.M = make_preconditioner<T>(spec.id, matrix, spec.options);
      if (!made.method.empty()) made.M = make_inner_solver<T>(matrix, std::move(made.M), spec.solver);
      if (made.M) made.M->ensure(matrix);
    } catch (const BadMatrix& error) {
      throw BadMatrix(fmt::format("fields: preconditioner {} of {}: {} (its rows count from 0)", spec.id,
                                  what, error.what()));
    }
    p.inner.push_back(std::move(made));
  }

  void describe(Parts& p, const std::string& found) const {
    p.text = found;
    if (found.empty()) {
      for (std::size_t k = 0; k < p.layout->fields.names.size(); ++k)
        p.text += fmt::format("{}{} ({} rows)", k == 0 ? "fields " : ", ", p.layout->fields.names[k],
                              p.layout->begin[k + 1] - p.layout->begin[k]);
    }
    p.text += fmt::format("; recipe {}", to_string(p.layout->recipe));
    if (of_schur(p.layout->recipe))
      p.text += fmt::format(" by {}", has_given_           ? "the given operator"
                                      : p.layout->commuted ? "the commutator"
                                                           : "the diagonal");
    if (p.factor != T(1)) p.text += fmt::format(" times {:g}", p.factor);
    p.text += "; inner ";
    for (std::size_t k = 0; k < p.inner.size(); ++k)
      p.text += fmt::format("{}{} {}{}{}", k == 0 ? "" : ", ", p.inner[k].called, p.inner[k].type,
                            p.inner[k].method.empty() ? "" : " with ", p.inner[k].method);
    if (!p.why.empty()) p.text += fmt::format("; taken because {}", p.why);
    if (p.ones.size() > 0)
      p.text += fmt::format("; constants in field {} change nothing", p.layout->fields.names[1]);
  }

  // z := M_i^-1 r
  void inner(const Parts& p, std::int64_t i, VectorView<const T> r, VectorView<T> z) const {
    const auto& M = p.inner[static_cast<std::size_t>(i)].M;
    if (M) return M->apply(r, z);
    copy<T>(*this->context(), r, z);
  }
  // v := P v
  void project(const Parts& p, VectorView<T> v) const {
    if (p.ones.size() == 0) return;
    const Context& context = *this->context();
    dot<T>(context, p.ones.view(), v, p.sum.data());
    axpy<T>(context, Coefficient<T>(T(-1) / static_cast<T>(v.size), p.sum.data()), p.ones.view(), v);
  }
  // z := |S|^-1 r; r is changed.
  void schur(const Parts& p, VectorView<T> r, VectorView<T> z) const {
    project(p, r);
    inner(p, 1, r, z);
    if (p.layout->commuted) {
      const Context& context = *this->context();
      const VectorView<T> t0 = p.part(p.t, 0), t1 = p.part(p.t, 1),
                          u0{p.t.data() + p.r.size(), t0.size, t0.space};
      p.block(0, 1).apply(T(1), z, T(0), t0);
      multiply<T>(context, p.inverse.view(), t0, t0);
      p.block(0, 0).apply(T(1), t0, T(0), u0);
      multiply<T>(context, p.inverse.view(), u0, u0);
      p.block(1, 0).apply(p.sign, u0, T(0), t1);
      inner(p, 1, t1, z);
    }
    project(p, z);
  }
  // z_1 := S^-1 r_1
  void signed_schur(const Parts& p) const {
    schur(p, p.part(p.r, 1), p.part(p.z, 1));
    if (p.sign > T(0)) scale<T>(*this->context(), T(-1), p.part(p.z, 1));
  }
  // r_i := r_i - A_ij z_j
  void subtract(const Parts& p, std::int64_t i, std::int64_t j) const {
    p.block(i, j).apply(T(-1), p.part(p.z, j), T(1), p.part(p.r, i));
  }
  void solve_field(const Parts& p, std::int64_t i) const { inner(p, i, p.part(p.r, i), p.part(p.z, i)); }

  // z := M^-1 r in the order of the fields; r is changed.
  void combine(const Parts& p) const {
    const std::int64_t count = p.layout->fields.size();
    switch (p.layout->recipe) {
      case Recipe::automatic:
      case Recipe::additive:
        for (std::int64_t i = 0; i < count; ++i) solve_field(p, i);
        return;
      case Recipe::lower:
      case Recipe::symmetric:
        for (std::int64_t i = 0; i < count; ++i) {
          for (std::int64_t j = 0; j < i; ++j) subtract(p, i, j);
          solve_field(p, i);
        }
        if (p.layout->recipe == Recipe::symmetric) sweep_back(p);
        return;
      case Recipe::upper:
        for (std::int64_t i = count; i-- > 0;) {
          for (std::int64_t j = i + 1; j < count; ++j) subtract(p, i, j);
          solve_field(p, i);
        }
        return;
      case Recipe::cpr_quasi_impes:
      case Recipe::cpr_true_impes:
        return solve_pressure_first(p);
      case Recipe::schur_diagonal:
        solve_field(p, 0);
        return schur(p, p.part(p.r, 1), p.part(p.z, 1));
      case Recipe::schur_lower:
        solve_field(p, 0), subtract(p, 1, 0);
        return signed_schur(p);
      case Recipe::schur_upper:
        signed_schur(p);
        subtract(p, 0, 1);
        return solve_field(p, 0);
      case Recipe::schur_full:
        solve_field(p, 0), subtract(p, 1, 0);
        signed_schur(p);
        subtract(p, 0, 1);
        return solve_field(p, 0);
    }
  }
  void solve_pressure_first(const Parts& p) const {
    const Context& context = *this->context();
    const std::int64_t n = p.r.size(), cells = p.layout->begin[1];
    const VectorView<T> t{p.t.data(), n, p.t.view().space}, u{p.t.data() + n, n, t.space},
        z = p.z.view(), weighted = p.part(p.t, 0);
    copy<T>(context, p.part(p.r, 0), weighted);
    for (std::int64_t i = 1; i < p.layout->fields.size(); ++i)
      multiply_add<T>(context, {p.weights.data() + (i - 1) * cells, cells, t.space}, p.part(p.r, i), T(1),
                      weighted);
    inner(p, 0, weighted, p.part(p.z, 0));
    for (std::int64_t i = 0; i < p.layout->fields.size(); ++i) subtract(p, i, 0);
    p.layout->permutation.apply_inverse(VectorView<const T>(p.r), t);
    inner(p, 1, t, u);
    protean::fill<T>(context, T(0), {z.data + cells, n - cells, z.space});
    p.layout->permutation.apply(VectorView<const T>(u), t);
    axpy<T>(context, T(1), t, z);
  }
  void sweep_back(const Parts& p) const {
    const std::int64_t count = p.layout->fields.size();
    for (std::int64_t i = count - 1; i-- > 0;) {
      const VectorView<T> t = p.part(p.t, i), u{p.t.data() + p.r.size(), t.size, t.space};
      for (std::int64_t j = i + 1; j < count; ++j)
        p.block(i, j).apply(T(1), p.part(p.z, j), j == i + 1 ? T(0) : T(1), t);
      inner(p, i, t, u);
      axpy<T>(*this->context(), T(-1), u, p.part(p.z, i));
    }
  }

  PreconditionerOptions options_;
  std::vector<InnerSpec> specs_;
  FieldList named_;
  CsrMatrix<T> given_;  // in place of |S|
  bool has_given_ = false;
  bool symmetric_ = true, variable_ = false;
  bool may_be_unsymmetric_ = false;  // although A is symmetric: recipe auto then may take such an M
  std::uint64_t renewals_ = 0;
  std::unique_ptr<Parts> parts_;
  mutable std::mutex mutex_;  // of the vectors
};

}  // namespace

template <class T>
void let_be_unsymmetric(Preconditioner<T>& M, bool may) {
  if (auto* const fields = dynamic_cast<Fields<T>*>(&M)) fields->let_be_unsymmetric(may);
}
template void let_be_unsymmetric<float>(Preconditioner<float>&, bool);
template void let_be_unsymmetric<double>(Preconditioner<double>&, bool);

template <class T>
MadePreconditioner<T> make_fields(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Fields<T>>(A, options);
}
template MadePreconditioner<float> make_fields<float>(const LinearOperator<float>&,
                                                      const PreconditionerOptions&);
template MadePreconditioner<double> make_fields<double>(const LinearOperator<double>&,
                                                        const PreconditionerOptions&);

}  // namespace protean::detail
