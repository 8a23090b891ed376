// A matrix that a GPU and a host share: admission, and the matrix. The cut and the forecast of its speeds are in
// split_rows.cpp. split.hpp describes them.
#include "formats/engines/split/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"
#include "operators/kernel_admission.hpp"
#include "operators/multi_product.hpp"
#include "operators/parts.hpp"
#include "operators/tuning.hpp"
#include "operators/values_word.hpp"

namespace protean::formats {
namespace {

// The rows before `border` of a matrix in device memory, in its arrays.
SparsityPattern rows_before(SparsityPattern pattern, std::int64_t border, std::int64_t entries) {
  pattern.rows = border, pattern.nonzeros = entries;
  return pattern;
}
template <class T>
CsrMatrix<T> rows_before(CsrMatrix<T> csr, std::int64_t border, std::int64_t entries) {
  csr.pattern = rows_before(std::move(csr.pattern), border, entries);
  return csr;
}

// A part as parameters name it: FORMAT[PARAMETERS]@KERNEL.
PartOfSum part_named(const FormatParams& params, std::string_view name) {
  std::vector<PartOfSum> parts;
  try {
    parts = parts_of(params.word(name));
  } catch (const BadArgument& error) {
    throw BadArgument(fmt::format("parameter {} of format split: {}", name, error.what()));
  }
  if (parts.size() > 1)
    throw BadArgument(fmt::format(
        "parameter {} of format split is '{}': {} formats; it must be one, as FORMAT[PARAMETER=VALUE]@KERNEL",
        name, params.word(name), parts.size()));
  return parts.front();
}

// Nothing for `auto`.
std::optional<double> share_of(const FormatParams& params) {
  const std::string& text = params.word("share");
  if (text == "auto") return {};
  double percent = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size() || !(percent >= 0 && percent <= 100))
    throw BadArgument(
        fmt::format("parameter share of format split is '{}'; it must be auto or the GPU's percentage of the "
                    "entries, 0 to 100",
                    text));
  return percent / 100;
}

const FormatEntry& format_on(const Context& context, std::string_view id) {
  return context.simulated() ? context.simulated()->format(id) : find_format(id);
}

// What admit() finds and the maker uses.
struct SplitPlan {
  PartOfSum device, host;
  ContextPtr host_context;
  SplitBalance balance;
  SplitRows rows;
};

// Device memory of a cut besides the matrix in csr and the GPU's part.
std::size_t copies_bytes(const SplitRows& rows, std::size_t value_bytes) {
  return rows.columns.size() * (sizeof(std::int32_t) + value_bytes) +
         static_cast<std::size_t>(rows.pattern.rows) * value_bytes;
}
bool has_device_part(const SparsityPattern& pattern, std::int64_t border) {
  return border > 0 || pattern.rows == 0;
}
// Bytes of a format in `bytes` besides the arrays of its source.
std::size_t own_bytes(const FormatEntry& entry, std::size_t bytes, std::size_t of_source) {
  return entry.traits.uses_source ? bytes - std::min(bytes, of_source) : bytes;
}

}  // namespace

Admission admit_split(const SplitTools& tools, const Context& context, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes) {
  const SplitForecast forecast = split_forecast(tools.speed(context), pattern, value_bytes);
  auto plan = std::make_shared<SplitPlan>(
      SplitPlan{part_named(params, "device"), part_named(params, "host"),
                Context::host(static_cast<int>(params.integer("threads"))),
                SplitBalance(pattern.nonzeros, forecast.device, forecast.host, share_of(params),
                             static_cast<int>(params.integer("corrections"))),
                SplitRows()});
  plan->rows = split_rows(plan->host_context, context, pattern,
                          split_border(context, pattern, plan->balance.wanted()));
  const SplitRows& rows = plan->rows;
  Admission whole =
      Admission::accept(pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes +
                            copies_bytes(rows, value_bytes),
                        0);
  const auto add = [&](const Context& where, const FormatEntry& entry, const PartOfSum& part,
                       const SparsityPattern& its, std::string_view name) {
    const Admission admission =
        detail::admit_kernel(entry, where, its, part.parameters, value_bytes, part.kernel);
    whole.stored_values += admission.stored_values;
    if (!admission.ok)
      whole = Admission::refuse(fmt::format("the {}'s part, {}: {}", name, part.format, admission.reason),
                                admission.bytes, admission.stored_values);
    else if (where.space() == Space::device)
      whole.bytes += own_bytes(entry, admission.bytes,
                               its.bytes() + static_cast<std::size_t>(its.nonzeros) * value_bytes);
  };
  if (has_device_part(pattern, rows.border))
    add(context, format_on(context, plan->device.format), plan->device,
        rows_before(pattern, rows.border, rows.first_entry), "GPU");
  if (whole.ok && rows.pattern.rows > 0)
    add(*plan->host_context, find_format(plan->host.format), plan->host, rows.pattern, "host");
  if (whole.ok) keep_plan(whole, std::move(plan));
  return whole;
}

namespace {

template <class T>
class SplitMatrix final : public AssembledMatrix<T>,
                          public HasApplyDot<T>,
                          public HasMultiProduct<T>,
                          public HasParts,
                          public HasTuning {
 public:
  SplitMatrix(const SplitTools& tools, const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        source_(request.csr),
        device_part_(plan_of<SplitPlan>(request.admission).device),
        host_part_(plan_of<SplitPlan>(request.admission).host),
        host_(plan_of<SplitPlan>(request.admission).host_context),
        balance_(plan_of<SplitPlan>(request.admission).balance),
        link_(tools.link(request.context)) {
    cut(plan_of<SplitPlan>(request.admission).rows);
  }
  ~SplitMatrix() override {
    const detail::DeviceScope scope(*this->context());
    link_.reset();
  }

  CsrMatrix<T> to_csr() const override { return source_; }
  std::size_t bytes() const noexcept override { return bytes_.load(std::memory_order_relaxed); }
  void diagonal(VectorView<T> d) const override {
    const std::lock_guard lock(mutex_);
    const detail::DeviceScope scope(*this->context());
    const std::int64_t border = std::min(parts_.rows.border, d.size);
    if (parts_.device && border > 0) parts_.device->diagonal({d.data, border, d.space});
    if (!parts_.host || border == d.size) return;
    const CsrMatrix<T> csr = parts_.host->to_csr();
    std::vector<T> its(static_cast<std::size_t>(d.size - border));
    for (std::int64_t i = border; i < d.size; ++i) {
      const auto row = csr.pattern.row(i - border);
      const std::int64_t place = place_of(i);
      const auto found = std::find(row.begin(), row.end(), place);
      its[static_cast<std::size_t>(i - border)] =
          found == row.end() ? T(0) : csr.values[csr.pattern.row_ptr[i - border] + (found - row.begin())];
    }
    detail::copy_bytes(*this->context(), d.data + border, Space::device, its.data(), Space::host,
                       its.size() * sizeof(T));
  }
  // If all rows have gone to the GPU, its format computes the products.
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    if (is_whole_on_device()) return protean::apply_dot<T>(*parts_.device, x, y, result);
    do_apply(T(1), x, T(0), y);
    dot<T>(*this->context(), x, y, result);
  }
  std::string_view no_multi_product() const noexcept override {
    if (!is_whole_on_device()) return "the host computes a part of it, or its times are measured";
    const Ability<HasMultiProduct<T>> multi = parts_.device->abilities().multi_product;
    return multi ? multi->no_multi_product() : "the format of the GPU's part has no such product";
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    parts_.device->abilities().multi_product->do_multi_apply(alpha, X, beta, Y);
  }
  // While the host has rows, the calling thread takes part in each product.
  Recording recording() const noexcept override {
    Recording own = AssembledMatrix<T>::recording();
    const std::lock_guard lock(mutex_);
    own.allowed = balance_.settled() && !parts_.host;
    // A GPU's part begins anew with its versions at each cut.
    own.version += cuts_ << 32;
    if (parts_.device) {
      const Recording its = parts_.device->recording();
      own.allowed = own.allowed && its.allowed, own.heeds_stop = its.heeds_stop;
      own.version += its.version;
    }
    return own;
  }
  std::vector<PartShare> part_shares() const override {
    const std::lock_guard lock(mutex_);
    const auto share = [](const auto& part, const PartOfSum& named, std::string_view where) {
      return PartShare{find_format(named.format).id, part ? part->nonzeros() : 0, part ? part->bytes() : 0,
                       where};
    };
    return {share(parts_.device, device_part_, "GPU"), share(parts_.host, host_part_, "host")};
  }
  Tuning tuning() const override {
    const std::lock_guard lock(mutex_);
    const double all = static_cast<double>(std::max<std::int64_t>(1, this->nonzeros()));
    Tuning tuning;
    tuning.choices = {{"share",
                       fmt::format("{:.4g}", 100 * static_cast<double>(parts_.rows.first_entry) / all),
                       balance_.is_asked()           ? "asked"
                       : balance_.corrections() == 0 ? "table"
                                                     : "time"}};
    tuning.settled = balance_.settled(), tuning.measurements = balance_.measurements();
    tuning.corrections = balance_.corrections();
    tuning.predicted_seconds = balance_.predicted_seconds();
    tuning.measured_seconds = balance_.measured_seconds();
    tuning.note = balance_.stopped_because();
    return tuning;
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<Buffer<T>> values = host_values(csr, parts_.rows);
    if (parts_.device)
      parts_.device->update_values(rows_before(csr, parts_.rows.border, parts_.rows.first_entry),
                                   SamePattern());
    if (parts_.host) parts_.host->update_values({parts_.rows.pattern, values->data(), values}, SamePattern());
    source_.values = csr.values, source_.values_owner = csr.values_owner, source_.watch = csr.watch;
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::lock_guard lock(mutex_);
    if (!balance_.settled()) correct();
    const std::int64_t border = parts_.rows.border;
    const bool measured = !balance_.settled();
    const VectorView<T> head{y.data, border, y.space}, tail{y.data + border, y.size - border, y.space};
    if (!measured && !parts_.host) return parts_.device->apply(alpha, x, beta, head);
    link_->begin(measured);
    if (parts_.host) fetch(x);
    if (parts_.device) parts_.device->apply(alpha, x, beta, head);
    link_->device_done();
    if (parts_.host) {
      link_->wait_for_x();
      parts_.host->apply(alpha, {static_cast<const T*>(link_->x()), parts_.host->cols()}, T(0),
                         {static_cast<T*>(link_->y()), parts_.host->rows()});
      // Through a vector of its own and not into y at once: a vector operation heeds the stop.
      link_->send(parts_.arrived.data(), static_cast<std::size_t>(parts_.arrived.size()) * sizeof(T));
      axpby<T>(*this->context(), T(1), parts_.arrived.view(), beta, tail);
    }
    link_->end();
  }

 private:
  struct Parts {
    SplitRows rows;
    std::unique_ptr<AssembledMatrix<T>> device, host;  // null for no rows
    Buffer<std::int32_t> columns;                      // in device memory; empty: a range of x
    Vector<T> packed;                                  // these entries of x
    Vector<T> arrived;                                 // the host's part of y
  };

  // For good.
  bool is_whole_on_device() const noexcept {
    const std::lock_guard lock(mutex_);
    return balance_.settled() && !parts_.host;
  }
  std::int64_t place_of(std::int64_t column) const {
    const std::vector<std::int32_t>& columns = parts_.rows.columns;
    if (columns.empty()) return column - parts_.rows.first;
    const auto found = std::lower_bound(columns.begin(), columns.end(), column);
    return found != columns.end() && *found == column ? found - columns.begin() : -1;
  }

  std::shared_ptr<Buffer<T>> host_values(const CsrMatrix<T>& csr, const SplitRows& rows) const {
    auto values = std::make_shared<Buffer<T>>(host_, rows.pattern.nonzeros);
    if (values->size() > 0)
      detail::copy_bytes(*this->context(), values->data(), Space::host, csr.values + rows.first_entry,
                         Space::device, values->bytes());
    return values;
  }

  // Makes both parts anew. If it throws, the earlier parts stay.
  void cut(SplitRows rows) const {
    const ContextPtr& context = this->context();
    Parts parts;
    parts.rows = std::move(rows);
    const SplitRows& its = parts.rows;
    if (has_device_part(source_.pattern, its.border))
      parts.device = make_matrix(format_on(*context, device_part_.format),
                                 rows_before(source_, its.border, its.first_entry), context,
                                 device_part_.parameters, device_part_.kernel);
    if (its.pattern.rows > 0) {
      const std::shared_ptr<Buffer<T>> values = host_values(source_, its);
      parts.host =
          make_matrix<T>(find_format(host_part_.format), {its.pattern, values->data(), values}, host_,
                         detail::as_admitted_in<T>(find_format(host_part_.format), host_part_.kernel,
                                                   Space::host, host_part_.parameters),
                         host_part_.kernel);
      if (!its.columns.empty()) {
        const auto count = static_cast<std::int64_t>(its.columns.size());
        parts.columns = Buffer<std::int32_t>(context, count);
        detail::copy_bytes(*context, parts.columns.data(), Space::device, its.columns.data(), Space::host,
                           parts.columns.bytes());
        parts.packed = Vector<T>(context, count);
      }
      parts.arrived = Vector<T>(context, its.pattern.rows);
      link_->make_room(static_cast<std::size_t>(its.pattern.cols) * sizeof(T),
                       static_cast<std::size_t>(its.pattern.rows) * sizeof(T));
    }
    parts_ = std::move(parts);
    ++cuts_;
    const std::size_t of_source = rows_before(source_, parts_.rows.border, parts_.rows.first_entry).bytes();
    bytes_ = source_.bytes() + copies_bytes(parts_.rows, sizeof(T)) +
             (parts_.device ? own_bytes(parts_.device->entry(), parts_.device->bytes(), of_source) : 0);
    balance_.divided(parts_.rows.first_entry);
  }

  // Takes the times of the product before, and moves rows if they ask for it.
  void correct() const {
    const std::optional<SplitTimes> times = link_->times();
    if (!times || !balance_.measured(*times)) return;
    try {
      const Context& context = *this->context();
      const std::int64_t border = split_border(context, source_.pattern, balance_.wanted());
      if (border == parts_.rows.border) return balance_.divided(parts_.rows.first_entry);
      link_->rebuild([&] { cut(split_rows(host_, context, source_.pattern, border)); });
    } catch (const OutOfMemory& error) { balance_.stop(error.what()); } catch (const FormatRefused& error) {
      balance_.stop(error.what());
    } catch (...) {
      // The earlier parts are still there, and a later product may be luckier.
      balance_.divided(parts_.rows.first_entry);
      throw;
    }
  }

  void fetch(VectorView<const T> x) const {
    if (!parts_.columns.empty())
      link_->gather(x.data, sizeof(T), parts_.columns.data(), parts_.columns.size(), parts_.packed.data());
    else
      link_->fetch(x.data + parts_.rows.first,
                   static_cast<std::size_t>(parts_.rows.pattern.cols) * sizeof(T));
  }

  // The matrix in CSR, in device memory: what both parts are made of.
  CsrMatrix<T> source_;
  PartOfSum device_part_, host_part_;
  ContextPtr host_;
  // Products move rows.
  mutable std::mutex mutex_;
  mutable SplitBalance balance_;
  std::unique_ptr<SplitLink> link_;
  mutable Parts parts_;
  mutable std::uint64_t cuts_ = 0;
  mutable std::atomic<std::size_t> bytes_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_split(const SplitTools& tools, const BuildRequest<T>& request) {
  return std::make_unique<SplitMatrix<T>>(tools, request);
}
template std::unique_ptr<AssembledMatrix<double>> make_split<double>(const SplitTools&,
                                                                     const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_split<float>(const SplitTools&,
                                                                   const BuildRequest<float>&);

}  // namespace protean::formats
