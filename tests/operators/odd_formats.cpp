#include "odd_formats.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace protean::test {
namespace {

std::atomic<int> begun{0}, outlasted{0}, stubborn_begun{0};
std::atomic<bool> hold_stubborn{false};

using Made = std::unique_ptr<AssembledMatrix<double>>;
using Request = BuildRequest<double>;

Made as_csr(const Request& r, const CsrMatrix<double>& csr) {
  return make_matrix(find_format("csr"), csr, r.context);
}

Made throwing(const Request& r) {
  const Buffer<double> some(r.context, 1000);
  throw std::runtime_error("no luck");
}
Made throwing_a_number(const Request& r) {
  const Buffer<double> some(r.context, 1000);
  throw 7;
}
Made nothing(const Request&) { return nullptr; }

// csr with the value in the middle multiplied by the factor.
Made with_one_value_times(const Request& r, double factor) {
  const bool host = r.context->space() == Space::host;
  const CsrMatrix<double> copy =
      host ? deep_copy(r.context, r.csr) : download(test_context(), *r.context, r.csr);
  const_cast<double*>(copy.values)[copy.nonzeros() / 2] *= factor;
  return as_csr(r, host ? copy : upload(r.context, copy));
}
Made wrong(const Request& r) { return with_one_value_times(r, 1 + 1e-6); }
Made not_a_number(const Request& r) { return with_one_value_times(r, std::nan("")); }
Made same(const Request& r) { return as_csr(r, r.csr); }

Made endless(const Request& r) {
  const Buffer<double> some(r.context, 100000);
  begun.fetch_add(1);
  for (int k = 0; k < 5000; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    parallel(2, [](int, int) {});
  }
  outlasted.fetch_add(1);
  return as_csr(r, r.csr);
}

Made stubborn(const Request& r) {
  const Buffer<double> some(r.context, 125000);
  stubborn_begun.fetch_add(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (int k = 0; k < 50000 && hold_stubborn; ++k)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  return as_csr(r, r.csr);
}

class Rounded final : public AssembledMatrix<double> {
 public:
  explicit Rounded(const Request& r) : AssembledMatrix<double>(r), csr_(deep_copy(r.context, r.csr)) {
    round();
  }
  CsrMatrix<double> to_csr() const override { return csr_; }
  std::size_t bytes() const noexcept override { return csr_.bytes(); }
  void diagonal(VectorView<double> d) const override { extract_diagonal(*context(), csr_, d.data); }

 protected:
  void do_update_values(const CsrMatrix<double>& csr) override {
    csr_ = deep_copy(context(), csr);
    round();
  }
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    for (std::int64_t row = 0; row < rows(); ++row) {
      double sum = 0;
      for (std::int64_t k = csr_.pattern.row_ptr[row]; k < csr_.pattern.row_ptr[row + 1]; ++k)
        sum += csr_.values[k] * x[csr_.pattern.col[k]];
      y[row] = beta == 0 ? alpha * sum : alpha * sum + beta * y[row];
    }
  }

 private:
  void round() {
    for (std::int64_t k = 0; k < csr_.nonzeros(); ++k)
      const_cast<double*>(csr_.values)[k] = static_cast<float>(csr_.values[k]);
  }
  CsrMatrix<double> csr_;
};
Made rounded(const Request& r) { return std::make_unique<Rounded>(r); }

Made wrongly_rounded(const Request& r) {
  const CsrMatrix<double> copy = deep_copy(r.context, r.csr);
  const_cast<double*>(copy.values)[copy.nonzeros() / 2] *= 1.001;
  return rounded({copy, r.params, r.context, r.entry, r.kernel, r.admission, r.asked});
}

Admission accept(const Context&, const SparsityPattern& p, const FormatParams&, std::size_t value_bytes) {
  return Admission::accept(p.bytes() + static_cast<std::size_t>(p.nonzeros) * value_bytes, p.nonzeros);
}
Admission refuse(const Context&, const SparsityPattern&, const FormatParams&, std::size_t) {
  return Admission::refuse("it refuses everything");
}

constexpr Kernel kernel(MakeMatrix<double> make) { return {"native", true, true, {}, make, nullptr}; }
constexpr Kernel throwing_kernels[] = {kernel(throwing)}, number_kernels[] = {kernel(throwing_a_number)},
                 null_kernels[] = {kernel(nothing)}, wrong_kernels[] = {kernel(wrong)},
                 endless_kernels[] = {kernel(endless)}, rounded_kernels[] = {kernel(rounded)},
                 stubborn_kernels[] = {kernel(stubborn)}, not_a_number_kernels[] = {kernel(not_a_number)},
                 same_kernels[] = {kernel(same)};
// Not by our own code, as the kernels of a library.
constexpr Kernel foreign_kernels[] = {{"foreign", true, true, {}, rounded, nullptr}},
                 wrong_foreign_kernels[] = {{"foreign", true, true, {}, wrongly_rounded, nullptr}};

struct Both {
  DeviceCode device;
  FormatEntry entry;
  Both(std::string_view id, std::span<const Kernel> kernels, Admit admit, bool exact = true)
      : device{kernels, admit},
        entry{.family = "odd",
              .id = id,
              .title = "for tests",
              .source = "",
              .traits = {.exact_values = exact},
              .params = {},
              .kernels = kernels,
              .admit = admit,
              .device = &device} {}
};

}  // namespace

int stubborn_builds() noexcept { return stubborn_begun.load(); }
void hold_stubborn_builds(bool held) noexcept { hold_stubborn = held; }
int endless_builds() noexcept { return begun.load(); }
int endless_builds_outlasted() noexcept { return outlasted.load(); }

const FormatEntry& refusing_format() {
  static const Both both("refusing", null_kernels, refuse);
  return both.entry;
}
const FormatEntry& throwing_format() {
  static const Both both("throwing", throwing_kernels, accept);
  return both.entry;
}
const FormatEntry& throwing_a_number_format() {
  static const Both both("throwing-a-number", number_kernels, accept);
  return both.entry;
}
const FormatEntry& wrong_format() {
  static const Both both("wrong", wrong_kernels, accept);
  return both.entry;
}
const FormatEntry& not_a_number_format() {
  static const Both both("not-a-number", not_a_number_kernels, accept);
  return both.entry;
}
const FormatEntry& square_format() {
  static const FormatEntry entry{.family = "odd",
                                 .id = "square",
                                 .title = "for tests",
                                 .source = "",
                                 .traits = {.square_only = true},
                                 .params = {},
                                 .kernels = same_kernels,
                                 .admit = accept};
  return entry;
}
const FormatEntry& null_format() {
  static const Both both("null", null_kernels, accept);
  return both.entry;
}
const FormatEntry& endless_format() {
  static const Both both("endless", endless_kernels, accept);
  return both.entry;
}
const FormatEntry& stubborn_format() {
  static const Both both("stubborn", stubborn_kernels, accept);
  return both.entry;
}
const FormatEntry& foreign_kernel_format(bool wrong) {
  static const Both both("foreign", foreign_kernels, accept),
      wrong_one("foreign", wrong_foreign_kernels, accept);
  return (wrong ? wrong_one : both).entry;
}
const FormatEntry& rounded_format() {
  static const Both both("rounded", rounded_kernels, accept, false);
  return both.entry;
}

}  // namespace protean::test
