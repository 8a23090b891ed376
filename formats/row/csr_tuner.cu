// CSR on the device with a group of threads a row (csr_tuner.hpp), on the arrays of csr.cu.
//   cooperative         T threads a row, blocks of `block` threads, `repeat` rows for each group
//   reguly-giles        the fixed rule of section 5.4
//   reguly-giles-tuned  begins with that rule and tries other parameters in the products of a running solve
//                       (section 6), each timed on the stream; then it uses the best. While it tries, a
//                       product waits for the one before and is not recorded, and the order of the sums may
//                       differ between products.
//   gridification       the same with another search: all T and some sizes of blocks, the fastest stays
// A product with x . y is two passes. Source: I. Reguly, M. Giles, InPar 2012,
// doi:10.1109/InPar.2012.6339602.
#include "formats/row/csr_tuner.hpp"

#include "formats/engines/rows/rows.cuh"
#include "formats/engines/tuning/timed_products.cuh"
#include "operators/tuning.hpp"

namespace protean::formats {
namespace {

template <class T>
class CsrInGroups : public CsrOnDevice<T> {
 public:
  CsrInGroups(const BuildRequest<T>& request, const CsrLaunch& how) : CsrOnDevice<T>(request), how_(how) {}

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply(how_, alpha, x, beta, y);
  }
  void multiply(const CsrLaunch& how, T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      multiply_groups(this->context()->device_state(), how, arrays, nullptr, this->rows(), alpha, x.data,
                      beta, y.data);
    });
  }

 private:
  CsrLaunch how_;
};

// Tuner: CsrTuner or CsrSweep.
template <class T, class Tuner>
class CsrTuned final : public CsrInGroups<T>, public HasTuning {
 public:
  CsrTuned(const BuildRequest<T>& request, const Tuner& tuner)
      : CsrInGroups<T>(request, tuner.best()), products_(tuner) {}
  // While it tries, each product has other parameters and must not be recorded.
  Recording recording() const noexcept override {
    Recording recording = AssembledMatrix<T>::recording();
    recording.allowed = products_.tuner().done();
    return recording;
  }
  Tuning tuning() const override {
    const Tuner& tuner = products_.tuner();
    const CsrLaunch& best = tuner.best();
    Tuning tuning;
    tuning.choices = {{"T", std::to_string(best.coop), "time"},
                      {"repeat", std::to_string(best.repeat), "time"},
                      {"block", std::to_string(best.block), "time"}};
    tuning.settled = tuner.done(), tuning.measurements = tuner.measurements();
    return tuning;
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    products_.run(*this->context(), [&](const CsrLaunch& how) { this->multiply(how, alpha, x, beta, y); });
  }

 private:
  mutable TimedProductsOnDevice<Tuner> products_;
};

template <class T>
CsrLaunch rule_for(const BuildRequest<T>& request) {
  return fixed_rule(request.csr.rows(), request.csr.nonzeros());
}

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_cooperative(const BuildRequest<T>& request) {
  const auto number = [&](const char* name) { return static_cast<int>(request.params.integer(name)); };
  return std::make_unique<CsrInGroups<T>>(request, CsrLaunch{number("T"), number("repeat"), number("block")});
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_reguly_giles(const BuildRequest<T>& request) {
  return std::make_unique<CsrInGroups<T>>(request, rule_for(request));
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_tuned(const BuildRequest<T>& request) {
  return std::make_unique<CsrTuned<T, CsrTuner>>(request, CsrTuner(rule_for(request), sizeof(T)));
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_gridification(const BuildRequest<T>& request) {
  return std::make_unique<CsrTuned<T, CsrSweep>>(request, CsrSweep());
}
#define PROTEAN_INSTANTIATE(T)                                                                   \
  template std::unique_ptr<AssembledMatrix<T>> make_csr_cooperative<T>(const BuildRequest<T>&);  \
  template std::unique_ptr<AssembledMatrix<T>> make_csr_reguly_giles<T>(const BuildRequest<T>&); \
  template std::unique_ptr<AssembledMatrix<T>> make_csr_tuned<T>(const BuildRequest<T>&);        \
  template std::unique_ptr<AssembledMatrix<T>> make_csr_gridification<T>(const BuildRequest<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::formats
