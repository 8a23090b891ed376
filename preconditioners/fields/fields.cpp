#include "preconditioners/fields/fields.hpp"

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "operators/known_symmetry.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/fields/cells.hpp"
#include "preconditioners/fields/found.hpp"
#include "preconditioners/fields/inner.hpp"
#include "preconditioners/fields/layout.hpp"
#include "preconditioners/fields/parts.hpp"
#include "preconditioners/fields/recipes/cpr.hpp"
#include "preconditioners/fields/recipes/schur.hpp"
#include "preconditioners/sparse/level_format.hpp"

namespace protean::detail {
namespace {

// What solves with a matrix like a mass matrix: products only, and few of them, since its condition is small.
constexpr std::string_view of_mass_like = "chebyshev degree=4 eigenvalue_ratio=10";

// One block, or a Schur complement, in the context of the solve, in a format by its pattern. Its source spares whatever
// is set up of it a conversion back to csr.
template <class T>
void put(std::unique_ptr<Matrix<T>>& matrix, const ContextPtr& context, const CsrMatrix<T>& csr) {
  const bool on_host = context->space() == Space::host;
  const CsrMatrix<T> source = on_host ? csr : upload(context, csr);
  std::string format;
  matrix = std::make_unique<Matrix<T>>(source, in_format<T>(context, source, csr.pattern, format),
                                       MatrixOptions{.changes = false});
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
  std::vector<std::int32_t> labels() const override {
    return parts_ ? parts_->layout->fields.of_row : std::vector<std::int32_t>();
  }
  Recording recording() const noexcept override {
    Recording all = BySolving<T>::recording();
    all.allowed = !variable_;
    if (!parts_) return all;
    for (const auto& inner : parts_->inner) {
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
    const bool symmetric = is_symmetric_matrix(A, *host, csr);
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
    made->context = context, made->why = std::move(choice.reason);
    made->r = Vector<T>(context, csr.rows()), made->z = Vector<T>(context, csr.rows());
    if (choice.recipe == Recipe::symmetric || of_cpr(choice.recipe) || commuted)
      made->t = Vector<T>(context, 2 * csr.rows());
    fill(*made, host, A, csr, found.what);
    parts_ = std::move(made), ++renewals_;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const std::lock_guard lock(mutex_);
    parts_->apply(r, z);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    if (!parts_) return 0;
    const Parts& p = *parts_;
    const bool on_host = this->context()->space() == Space::host;
    std::size_t sum = static_cast<std::size_t>(p.r.size() + p.z.size() + p.t.size() + p.inverse.size() +
                                               p.ones.size() + p.sum.size()) *
                      sizeof(T);
    // csr shares the arrays of the source; on a host the source shares the pattern of the layout.
    const auto of_matrix = [&](const Matrix<T>* matrix, std::size_t pattern) {
      if (!matrix) return pattern;
      const std::size_t source = matrix->assembled()->name() == "csr" ? 0 : matrix->source().bytes();
      return matrix->running_bytes() + source + (on_host ? 0 : pattern);
    };
    for (std::size_t k = 0; k < p.layout->patterns.size(); ++k)
      sum += p.layout->patterns[k].bytes() +
             of_matrix(p.blocks[k].get(), p.layout->patterns[k].pattern().bytes());
    if (p.S && !has_given_)
      sum += p.layout->schur.bytes() + of_matrix(p.S.get(), p.layout->schur.pattern().bytes());
    if (has_given_) sum += of_matrix(p.S.get(), given_.bytes());
    if (p.pressure)
      sum += of_matrix(p.pressure.get(), 0) + static_cast<std::size_t>(p.weights.size()) * sizeof(T);
    for (const auto& inner : p.inner) sum += inner.M ? inner.M->bytes() : 0;
    const std::size_t places = on_host ? 0 : 8 * static_cast<std::size_t>(p.layout->permutation.size());
    return sum + places + p.layout->fields.of_row.size() * 4;
  }

 private:
  using Parts = FieldParts<T>;

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
    std::vector<T> inverse;
    if (schur) {
      complement = make_schur(p, host, values, inverse);
      put(p.S, context, complement);
      if (maps_constant_to_zero(csr, p.layout->fields, 1)) {
        p.sum = Vector<T>(context, 1), p.ones = Vector<T>(context, p.layout->begin[2] - p.layout->begin[1]);
        protean::fill<T>(*context, T(1), p.ones.view());
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string& called = p.layout->fields.names[static_cast<std::size_t>(i)];
      if (schur && i == 1)
        set_up_schur(p, host, values, inverse, std::move(complement));
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

  // inverse: D^-1, which it computes.
  CsrMatrix<T> make_schur(Parts& p, const ContextPtr& host, const std::vector<CsrMatrix<T>>& values,
                          std::vector<T>& inverse) const {
    const CsrMatrix<T>& A11 = values[p.layout->at(1, 1)];
    const std::string called = fmt::format("fields: the block of field {}", p.layout->fields.names[0]);
    const Vector<T> diagonal =
        usable_diagonal<T>(called, host, values[p.layout->at(0, 0)], ZeroDiagonal::error);
    inverse.resize(static_cast<std::size_t>(diagonal.size()));
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

  // E in place of the assembled complement C, if S is like E (ComplementProbe).
  void try_mass_like(Parts& p, const ContextPtr& host, const std::vector<CsrMatrix<T>>& values,
                     const std::vector<T>& inverse, ComplementProbe<T>& probe, CsrMatrix<T>& C) const {
    CsrMatrix<T> E = mass_like(host, p.layout->schur, values[p.layout->at(1, 0)], values[p.layout->at(1, 1)],
                               values[p.layout->at(0, 1)], inverse, C);
    require_no_overflow(*host, name(), E.values, E.nonzeros());
    if (asymmetry<T>(*host, E) > symmetry_tolerance<T>) return;  // then it need not be positive definite
    std::unique_ptr<Matrix<T>> of_E;
    put(of_E, this->context(), E);
    std::vector<T> diagonal(static_cast<std::size_t>(C.rows()));
    extract_diagonal<T>(*host, C, diagonal.data());
    const Vector<T> sums = in_space(inverse_row_sums(E)), of_C = in_space(diagonal);
    p.mass_like = probe.is_like_mass(*of_E, sums.view(), *p.S, of_C.view());
    if (p.mass_like) C = std::move(E), p.S = std::move(of_E);
  }
  Vector<T> in_space(const std::vector<T>& numbers) const {
    const auto size = static_cast<std::int64_t>(numbers.size());
    Vector<T> there(this->context(), size);
    copy<T>(*this->context(), {numbers.data(), size}, there.view());
    return there;
  }

  void set_up_schur(Parts& p, const ContextPtr& host, const std::vector<CsrMatrix<T>>& values,
                    const std::vector<T>& inverse, CsrMatrix<T> complement) const {
    const std::string& called = p.layout->fields.names[1];
    bool local = false;
    const auto set_up = [&] {
      set_up_inner(p, called, fmt::format("field {}, of its Schur complement", called), *p.S, [&] {
        return p.mass_like ? std::string(of_mass_like)
               : local     ? std::string("jacobi")
                           : default_inner(*host, complement, called, false);
      });
    };
    if (p.layout->commuted || has_given_ || inner_of(specs_, called).id != "auto") return set_up();
    const ContextPtr& context = this->context();
    std::unique_ptr<Matrix<T>> A01, A10, A11;
    put(A01, context, values[p.layout->at(0, 1)]), put(A10, context, values[p.layout->at(1, 0)]);
    if (values[p.layout->at(1, 1)].nonzeros() > 0) put(A11, context, values[p.layout->at(1, 1)]);
    ComplementProbe<T> probe(
        *A01, *A10, A11.get(), p.sign, [&](VectorView<T> r, VectorView<T> z) { p.solve(0, r, z); },
        [&](VectorView<T> v) { p.project(v); }, in_space(inverse_diagonal(*host, complement)));
    const Vector<T> sums = in_space(inverse_row_sums(complement));
    try_mass_like(p, host, values, inverse, probe, complement);
    local = !p.mass_like && probe.is_local(*p.S, sums.view());
    set_up();
    if (!local && !p.mass_like) return;
    p.factor = probe.factor([&](VectorView<T> r, VectorView<T> z) { p.solve_schur(r, z); });
    if (p.factor == T(1)) return;
    complement = times(host, p.factor, complement);
    require_no_overflow(*host, name(), complement.values, complement.nonzeros());
    put(p.S, context, complement);
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
    typename Parts::Inner made{called, std::move(type), spec.solver.method, nullptr};
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
                                      : p.mass_like        ? "a matrix like a mass matrix"
                                                           : "the diagonal");
    if (p.factor != T(1)) p.text += fmt::format(" times {:g}", p.factor);
    p.text += "; inner ";
    for (std::size_t k = 0; k < p.inner.size(); ++k)
      p.text += fmt::format("{}{} {}{}{}", k == 0 ? "" : ", ", p.inner[k].called, p.inner[k].type,
                            p.inner[k].method.empty() ? "" : " with ", p.inner[k].method);
    if (!p.why.empty()) p.text += fmt::format("; taken because {}", p.why);
    if (p.ones.size() > 0)
      p.text += fmt::format("; constants in field {} change nothing", p.layout->fields.names[1]);
    p.text += formats_of_blocks(p);
  }

  static std::string formats_of_blocks(const Parts& p) {
    std::string text;
    const auto add = [&](std::string_view block, const Matrix<T>* matrix) {
      if (matrix)
        text +=
            fmt::format("{} {} {}", text.empty() ? "; formats:" : ",", block, matrix->assembled()->name());
    };
    const std::vector<std::string>& names = p.layout->fields.names;
    for (std::size_t i = 0, k = 0; i < names.size(); ++i)
      for (std::size_t j = 0; j < names.size(); ++j)
        add(fmt::format("{}{}", names[i], i == j ? "" : "-" + names[j]), p.blocks[k++].get());
    add("S", p.S.get()), add("pressure", p.pressure.get());
    return text;
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
