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
  Shared(ContextPtr context, std::shared_ptr<OwnState<T>> own)
      : Preconditioner<T>(std::move(context), own->M().shape()), own_(std::move(own)) {}
  std::string_view name() const noexcept override { return own_->M().name(); }
  VectorView<const T> inverse_diagonal() const noexcept override { return own_->M().inverse_diagonal(); }
  bool symmetric() const noexcept override { return own_->M().symmetric(); }
  bool variable() const noexcept override { return own_->M().variable(); }
  std::size_t bytes() const noexcept override { return own_->M().bytes(); }
  Recording recording() const noexcept override { return own_->M().recording(); }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}  // it was set up for its own matrix
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (own_->stale()) {
      // A GPU may be recording its steps here, when nothing can be set up.
      if (this->context()->space() == Space::device)
        throw BadArgument(
            "the format of the matrix of the preconditioner was changed; call update() of the "
            "preconditioner before the solve");
      own_->follow();
    }
    own_->M().apply(alpha, x, beta, y);
  }

 private:
  std::shared_ptr<OwnState<T>> own_;
};

// M^-1 r = B r for a matrix B. A diagonal B is used inside the vector operations of the methods.
template <class T>
class ByProduct final : public Preconditioner<T> {
 public:
  ByProduct(ContextPtr context, std::shared_ptr<Matrix<T>> matrix)
      : Preconditioner<T>(std::move(context), matrix->shape()), matrix_(std::move(matrix)) {
    const std::lock_guard lock(matrix_->mutex());
    matrix_->make();
    if (matrix_->is_function() || matrix_->gpu())
      return;  // a diagonal on a GPU would have to be looked for there
    const CsrMatrix<T>& csr = matrix_->csr();
    if (csr.nonzeros() != csr.rows()) return;
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      if (csr.pattern.row_ptr[r] != r || csr.pattern.col[r] != r) return;
    diagonal_ = {csr.values, csr.rows(), Space::host};
  }
  std::string_view name() const noexcept override { return "product"; }
  // The matrix may have another operator in the next solve, which counts its versions from the beginning.
  Recording recording() const noexcept override {
    Recording inner = matrix_->A().recording();
    inner.heeds_stop = false;
    if (inner.version != 0) inner.version += matrix_->A().serial() << 32;
    return inner;
  }
  VectorView<const T> inverse_diagonal() const noexcept override { return diagonal_; }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::lock_guard lock(matrix_->mutex());
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

// One of this library by name, which each solve sets up for its operator.
template <class T>
class NamedSource final : public PreconditionerSource<T> {
 public:
  explicit NamedSource(nb::handle given) : named_(preconditioner_of(given)) {}
  std::unique_ptr<Preconditioner<T>> make(const LinearOperator<T>& A) const override {
    return make_preconditioner<T>(named_.id, A, named_.options);
  }

 private:
  NamedPreconditioner named_;
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
OwnState<T>::OwnState(std::shared_ptr<Matrix<T>> matrix, const std::string& id,
                      const PreconditionerOptions& options)
    : matrix_(std::move(matrix)) {
  const WithoutGil no_gil;
  const std::lock_guard lock(matrix_->mutex());
  matrix_->make();
  M_ = make_preconditioner<T>(id, matrix_->A(), options);
  if (!M_) throw BadArgument("preconditioner none computes nothing; name another one, or leave it out");
  ensure();
}

template <class T>
void OwnState<T>::ensure() {
  M_->ensure(matrix_->A());
  serial_ = matrix_->A().serial();
}

template <class T>
void OwnState<T>::follow() {
  if (!stale()) return;
  const std::lock_guard lock(matrix_->mutex());
  ensure();
}

template <class T>
OwnPreconditioner<T>::OwnPreconditioner(std::shared_ptr<Matrix<T>> matrix, const std::string& id,
                                        const PreconditionerOptions& options)
    : own_(std::make_shared<OwnState<T>>(std::move(matrix), id, options)) {}

template <class T>
std::unique_ptr<Preconditioner<T>> OwnPreconditioner<T>::make(const LinearOperator<T>& A) const {
  own_->follow();
  return std::make_unique<Shared<T>>(A.context(), own_);
}

template <class T>
void OwnPreconditioner<T>::apply(VectorView<const T> r, VectorView<T> z) const {
  const WithoutGil no_gil;
  const std::lock_guard lock(own_->matrix().mutex());
  own_->follow();
  M().apply(r, z);
}

template <class T>
void OwnPreconditioner<T>::apply(const DeviceArray& r, const DeviceArray& z) const {
  Gpu& gpu = own_->matrix().require_gpu();
  const WithoutGil no_gil;
  const std::lock_guard lock(own_->matrix().mutex());
  own_->follow();
  Joined joined(gpu, {&r, &z});
  M().apply(vector_of<const T>(r, gpu), vector_of<T>(z, gpu));
  joined.done();
}

template <class T>
void OwnPreconditioner<T>::update() {
  const WithoutGil no_gil;
  const std::lock_guard lock(own_->matrix().mutex());
  own_->ensure();
}

template class OwnState<float>;
template class OwnState<double>;
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
      .def_static(
          "of_name",
          [](nb::handle given) -> std::shared_ptr<Source> { return std::make_shared<NamedSource<T>>(given); })
      .def_static("of_function", [](nb::object function, std::int64_t rows) -> std::shared_ptr<Source> {
        return std::make_shared<FunctionSource<T>>(std::move(function), rows);
      });
  nb::class_<Own, Source>(m, ("Preconditioner" + suffix).c_str())
      .def("__init__",
           [](Own* self, std::shared_ptr<Matrix<T>> matrix, nb::handle given) {
             const NamedPreconditioner named = preconditioner_of(given);
             new (self) Own(std::move(matrix), named.id, named.options);
           })
      .def(
          "apply",
          [](const Own& own, const VectorArray<const T>& r, const VectorArray<T>& z) {
            own.apply(view_of<const T>(r), view_of<T>(z));
          },
          nb::arg("r").noconvert(), nb::arg("z").noconvert())
      .def(
          "apply", [](const Own& own, const DeviceArray& r, const DeviceArray& z) { own.apply(r, z); },
          nb::arg("r"), nb::arg("z"))
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
