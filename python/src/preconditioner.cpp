#include "preconditioner.hpp"

#include "core/error.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "settings.hpp"

namespace protean::python {
namespace {

// A preconditioner that others hold, too.
template <class T>
class Shared final : public Preconditioner<T> {
 public:
  Shared(ContextPtr context, std::shared_ptr<Preconditioner<T>> M)
      : Preconditioner<T>(std::move(context), M->shape()), M_(std::move(M)) {}
  std::string_view name() const noexcept override { return M_->name(); }
  VectorView<const T> inverse_diagonal() const noexcept override { return M_->inverse_diagonal(); }
  bool symmetric() const noexcept override { return M_->symmetric(); }
  std::size_t bytes() const noexcept override { return M_->bytes(); }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}  // it was set up for its own matrix
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    M_->apply(alpha, x, beta, y);
  }

 private:
  std::shared_ptr<Preconditioner<T>> M_;
};

// M^-1 r = B r for a matrix B. A diagonal B is used inside the vector operations of the methods.
template <class T>
class ByProduct final : public Preconditioner<T> {
 public:
  ByProduct(ContextPtr context, std::shared_ptr<Matrix<T>> matrix)
      : Preconditioner<T>(std::move(context), matrix->shape()), matrix_(std::move(matrix)) {
    if (matrix_->is_function()) return;
    const CsrMatrix<T>& csr = matrix_->csr();
    if (csr.nonzeros() != csr.rows()) return;
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      if (csr.pattern.row_ptr[r] != r || csr.pattern.col[r] != r) return;
    diagonal_ = {csr.values, csr.rows(), Space::host};
  }
  std::string_view name() const noexcept override { return "product"; }
  VectorView<const T> inverse_diagonal() const noexcept override { return diagonal_; }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::lock_guard lock(matrix_->mutex());
    matrix_->make();
    matrix_->A().apply(alpha, x, beta, y);
  }

 private:
  std::shared_ptr<Matrix<T>> matrix_;
  VectorView<const T> diagonal_ = {};
};

template <class T>
class ProductSource final : public PreconditionerSource<T> {
 public:
  explicit ProductSource(std::shared_ptr<Matrix<T>> matrix) : matrix_(std::move(matrix)) {}
  std::unique_ptr<Preconditioner<T>> make(const LinearOperator<T>& A) const override {
    return std::make_unique<ByProduct<T>>(A.context(), matrix_);
  }

 private:
  std::shared_ptr<Matrix<T>> matrix_;
};

template <class T>
class FunctionSource final : public PreconditionerSource<T> {
 public:
  FunctionSource(nb::object function, std::int64_t rows)
      : function_(std::move(function), rows, rows, "the preconditioner"), rows_(rows) {}
  std::unique_ptr<Preconditioner<T>> make(const LinearOperator<T>& A) const override {
    return std::make_unique<CallbackPreconditioner<T>>(
        A.context(), Shape{rows_, rows_}, [f = function_](const T* r, T* z, CUstream_st*) { f(r, z); },
        typename CallbackPreconditioner<T>::Setup{}, CallbackOptions{"python", false});
  }

 private:
  PythonFunction<T> function_;
  std::int64_t rows_;
};

}  // namespace

template <class T>
OwnPreconditioner<T>::OwnPreconditioner(std::shared_ptr<Matrix<T>> matrix, const std::string& id,
                                        const PreconditionerOptions& options)
    : matrix_(std::move(matrix)) {
  const nb::gil_scoped_release no_gil;
  const std::lock_guard lock(matrix_->mutex());
  matrix_->make();
  M_ = make_preconditioner<T>(id, matrix_->A(), options);
  if (!M_) throw BadArgument("preconditioner none computes nothing; name another one, or leave it out");
  M_->ensure(matrix_->A());
}

template <class T>
std::unique_ptr<Preconditioner<T>> OwnPreconditioner<T>::make(const LinearOperator<T>& A) const {
  return std::make_unique<Shared<T>>(A.context(), M_);
}

template <class T>
void OwnPreconditioner<T>::apply(VectorView<const T> r, VectorView<T> z) const {
  const nb::gil_scoped_release no_gil;
  const std::lock_guard lock(matrix_->mutex());
  M_->apply(r, z);
}

template <class T>
void OwnPreconditioner<T>::update() {
  const nb::gil_scoped_release no_gil;
  const std::lock_guard lock(matrix_->mutex());
  M_->ensure(matrix_->A());
}

template class OwnPreconditioner<float>;
template class OwnPreconditioner<double>;

namespace {

template <class T>
void bind(nb::module_& m, const std::string& suffix) {
  using Source = PreconditionerSource<T>;
  using Own = OwnPreconditioner<T>;
  nb::class_<Source>(m, ("Source" + suffix).c_str())
      .def_static("of_matrix",
                  [](std::shared_ptr<Matrix<T>> matrix) -> std::shared_ptr<Source> {
                    return std::make_shared<ProductSource<T>>(std::move(matrix));
                  })
      .def_static("of_function", [](nb::object function, std::int64_t rows) -> std::shared_ptr<Source> {
        return std::make_shared<FunctionSource<T>>(std::move(function), rows);
      });
  nb::class_<Own, Source>(m, ("Preconditioner" + suffix).c_str())
      .def("__init__",
           [](Own* self, std::shared_ptr<Matrix<T>> matrix, nb::handle given) {
             const auto [id, options] = preconditioner_of(given);
             new (self) Own(std::move(matrix), id, options);
           })
      .def(
          "apply",
          [](const Own& own, const VectorArray<const T>& r, const VectorArray<T>& z) {
            own.apply(view_of<const T>(r), view_of<T>(z));
          },
          nb::arg("r").noconvert(), nb::arg("z").noconvert())
      .def("update", &Own::update)
      .def_prop_ro("rows", [](const Own& own) { return own.M().rows(); })
      .def_prop_ro("name", [](const Own& own) { return std::string(own.M().name()); })
      .def_prop_ro("symmetric", [](const Own& own) { return own.M().symmetric(); })
      .def_prop_ro("bytes", [](const Own& own) { return own.M().bytes(); })
      .def_prop_ro("figures", [](const Own& own) {
        nb::dict result;
        for (const PreconditionerFigure& figure : own.M().figures())
          result[nb::str(figure.name.data(), figure.name.size())] = figure.value;
        return result;
      });
}

}  // namespace

void bind_preconditioners(nb::module_& m) {
  bind<double>(m, "F64");
  bind<float>(m, "F32");
}

}  // namespace protean::python
