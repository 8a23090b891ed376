#include "research/reproduce/lab.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/command/clock.hpp"
#include "apps/command/interrupt.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/parts.hpp"

namespace protean::research {
namespace {

constexpr SizeInfo size_table[] = {
    {Size::quick,
     {1500000, 3000000},
     {.fewest = 3, .most = 9, .seconds = 0.04, .spread = 0.05, .batch = 1e-3},
     false,
     6,
     5},
    {Size::day, {20000000, 60000000}, {.fewest = 5, .most = 21, .seconds = 0.25}, true, 15, 20},
    {Size::full, {0, 0}, {}, true, 15, 70}};

// All specimens together.
constexpr std::int64_t most_kept_entries = 60000000;

// "ELL(81%)COO(19%)", as in Table 2 of S2.
std::string parts_text(const std::vector<PartShare>& shares, std::int64_t nonzeros) {
  std::string text;
  for (const PartShare& share : shares) {
    if (share.entries == 0) continue;
    std::string name(share.format);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    text += name;
    if (share.entries < nonzeros)
      text +=
          fmt::format("({:.0f}%)", 100 * static_cast<double>(share.entries) / static_cast<double>(nonzeros));
  }
  return text;
}

}  // namespace

std::string_view to_string(Size size) noexcept {
  return size == Size::quick ? "quick" : size == Size::day ? "day" : "full";
}

std::span<const SizeInfo> sizes() noexcept { return size_table; }
const SizeInfo& info_of(Size size) noexcept {
  return *std::find_if(std::begin(size_table), std::end(size_table),
                       [&](const SizeInfo& info) { return info.size == size; });
}

std::string parameters_text(const FormatParams& params) {
  std::string text;
  for (const auto& [name, value] : params.all())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

Lab::Lab(const LabOptions& options, const PaperTables& papers, std::function<void(const std::string&)> show)
    : options_(options),
      papers_(papers),
      show_(std::move(show)),
      host_(Context::host(options.threads)),
      context_(options.space == Space::device ? Context::device() : host_),
      most_entries_(options.most_entries) {
  if (most_entries_ == 0) most_entries_ = info_of(options.size).most_entries[device()];
  if (most_entries_ == 0) most_entries_ = std::numeric_limits<std::int64_t>::max();
}

bool Lab::interrupted() const noexcept { return InterruptGuard::asked(); }

TimingLimits Lab::limits() const { return options_.limits.value_or(info_of(options_.size).limits); }

const Specimen& Lab::keep(std::string name, Specimen specimen) {
  specimens_.emplace_front(std::move(name), std::move(specimen));
  std::int64_t kept = 0;
  for (auto it = specimens_.begin(); it != specimens_.end();) {
    kept += it->second.csr.nonzeros();
    it = kept > most_kept_entries && it != specimens_.begin() ? specimens_.erase(it) : std::next(it);
  }
  return specimens_.front().second;
}

const Specimen& Lab::matrix(const std::string& name) {
  const auto found = std::find_if(specimens_.begin(), specimens_.end(),
                                  [&](const auto& kept) { return kept.first == name; });
  if (found != specimens_.end()) {
    specimens_.splice(specimens_.begin(), specimens_, found);
    return specimens_.front().second;
  }
  show(fmt::format("matrix {}", name));
  return keep(name, make_specimen(host_, papers_, name, options_.folder, most_entries_,
                                  options_.most_formula_entries));
}

const Specimen& Lab::generated(const std::string& name, std::string_view kind,
                               const GeneratorParams& params) {
  const auto found = std::find_if(specimens_.begin(), specimens_.end(),
                                  [&](const auto& kept) { return kept.first == name; });
  if (found != specimens_.end()) {
    specimens_.splice(specimens_.begin(), specimens_, found);
    return specimens_.front().second;
  }
  show(fmt::format("matrix {}", name));
  return keep(name, generated_specimen(host_, name, kind, params));
}

Measured Lab::counted(const Specimen& specimen, const Way& way) {
  Measured result;
  try {
    const Admission admission = admit(find_format(way.format), *host_, specimen.csr.pattern, way.params,
                                      way.single ? sizeof(float) : sizeof(double));
    result.bytes = admission.bytes, result.stored = admission.stored_values;
    if (!admission.ok) result.why = admission.reason;
  } catch (const NotAvailable& error) { result.why = error.what(); }
  return result;
}

// The csr of a specimen in the space, x, and what a product must be, with the bound of its rounding error: |A| |x|
// eps (n + 2) for a row of n entries (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section
// 3.1), for the product and for the reference.
template <class T>
Lab::Place<T>& Lab::place(const Specimen& specimen) {
  auto& place = [&]() -> Place<T>& {
    if constexpr (sizeof(T) == 8)
      return double_;
    else
      return single_;
  }();
  const std::string name = specimen.name + '\n' + specimen.made;
  if (place.name == name) return place;
  place = {};
  CsrMatrix<T> csr;
  if constexpr (sizeof(T) == 8)
    csr = specimen.csr;
  else
    csr = convert_values<float>(host_, specimen.csr);
  std::vector<T> x(static_cast<std::size_t>(csr.cols()));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<T>(1 + 0.5 * std::sin(0.37 * static_cast<double>(i)));
  place.expected.assign(static_cast<std::size_t>(csr.rows()), 0);
  place.bound.assign(static_cast<std::size_t>(csr.rows()), 0);
  constexpr double eps = std::numeric_limits<T>::epsilon();
  for (std::int64_t row = 0; row < csr.rows(); ++row) {
    double sum = 0, size = 0;
    for (std::int64_t k = csr.pattern.row_ptr[row]; k < csr.pattern.row_ptr[row + 1]; ++k) {
      const double term = static_cast<double>(csr.values[k]) *
                          static_cast<double>(x[static_cast<std::size_t>(csr.pattern.col[k])]);
      sum += term, size += std::fabs(term);
    }
    place.expected[static_cast<std::size_t>(row)] = sum;
    place.bound[static_cast<std::size_t>(row)] =
        2 * eps * (static_cast<double>(csr.pattern.row_length(row)) + 2) * size;
  }
  place.csr = device() ? upload(context_, csr) : csr;
  place.x = Vector<T>(context_, csr.cols()), place.y = Vector<T>(context_, csr.rows());
  copy<T>(*context_, VectorView<const T>{x.data(), csr.cols()}, place.x);
  context_->synchronize();
  place.name = name;
  return place;
}

template <class T>
void Lab::run(const Specimen& specimen, const Way& way, Measured& result, double* joules) {
  Place<T>& here = place<T>(specimen);
  const FormatEntry& entry = find_format(way.format);
  const Admission admission = admit(entry, *context_, here.csr.pattern, way.params, sizeof(T));
  result.bytes = admission.bytes, result.stored = admission.stored_values;
  if (!admission.ok) {
    result.why = admission.reason;
    return;
  }
  std::unique_ptr<AssembledMatrix<T>> A;
  std::vector<double> builds;
  Clock clock;
  do {
    A.reset();
    (void)clock.lap();
    A = make_matrix(entry, here.csr, context_, way.params, way.kernel);
    context_->synchronize();
    builds.push_back(clock.lap());
  } while (!joules && builds.size() < 3 && clock.total() < 4 * limits().seconds);
  result.bytes = A->bytes();
  result.convert = timing_of(builds).median;
  if (const auto* parts = dynamic_cast<const HasParts*>(A.get()))
    result.parts = parts_text(parts->part_shares(), specimen.csr.nonzeros());
  A->apply(here.x, here.y);
  std::vector<T> y(static_cast<std::size_t>(A->rows()));
  copy<T>(*context_, here.y, VectorView<T>{y.data(), A->rows()});
  context_->synchronize();
  for (std::size_t row = 0; row < y.size(); ++row)
    if (!(std::fabs(static_cast<double>(y[row]) - here.expected[row]) <= here.bound[row])) {
      result.why = fmt::format("its product is wrong: row {} has {} and should have {}", row, y[row],
                               here.expected[row]);
      return;
    }
  if (joules) {
    // The counters are renewed about each millisecond on a host and each 100 ms on a GPU.
    const double least = device() ? 1.0 : 0.1;
    const double before = meter().joules();
    std::int64_t products = 0;
    Clock running;
    do {
      for (int k = 0; k < 16; ++k) A->apply(here.x, here.y);
      context_->synchronize();
      products += 16;
    } while (running.total() < least);
    *joules = (meter().joules() - before) / static_cast<double>(products);
    return;
  }
  result.product = measure(
                       *context_, [&] { A->apply(here.x, here.y); }, limits())
                       .median;
}

const Measured& Lab::measured(const Specimen& specimen, const Way& way) {
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", specimen.name, specimen.made, way.format,
                                      parameters_text(way.params), way.kernel, way.single);
  if (const auto found = measured_.find(key); found != measured_.end()) return found->second;
  show(fmt::format("{}: {}", specimen.name, way.format));
  Measured result;
  try {
    if (way.single)
      run<float>(specimen, way, result, nullptr);
    else
      run<double>(specimen, way, result, nullptr);
  } catch (const FormatRefused& error) { result.why = error.what(); } catch (const NotAvailable& error) {
    result.why = error.what();
  } catch (const OutOfMemory& error) { result.why = error.what(); } catch (const BadArgument& error) {
    result.why = error.what();
  }
  return measured_[key] = std::move(result);
}

std::optional<double> Lab::product_joules(const Specimen& specimen, const Way& way) {
  if (!meter().why_not().empty() || !measured(specimen, way).ok()) return {};
  Measured ignored;
  double joules = 0;
  if (way.single)
    run<float>(specimen, way, ignored, &joules);
  else
    run<double>(specimen, way, ignored, &joules);
  // A counter that has begun again gives no number.
  if (!ignored.ok() || joules <= 0) return {};
  return joules;
}

const EnergyMeter& Lab::meter() {
  if (!meter_) meter_ = std::make_unique<EnergyMeter>(options_.space);
  return *meter_;
}

std::optional<double> Lab::gflops(const Specimen& specimen, const Way& way) {
  const Measured& m = measured(specimen, way);
  if (!m.ok() || m.product <= 0) return {};
  return 2e-9 * static_cast<double>(specimen.csr.nonzeros()) / m.product;
}

double Lab::copy_bandwidth() {
  if (copy_bandwidth_ == 0) {
    show("copy bandwidth");
    copy_bandwidth_ = apps::copy_bandwidth(context_);
  }
  return copy_bandwidth_;
}

const MeasuredRoof& Lab::roof() {
  if (!roof_) {
    show("bandwidths of memory and caches");
    roof_ = measure_roof(context_);
  }
  return *roof_;
}

}  // namespace protean::research
