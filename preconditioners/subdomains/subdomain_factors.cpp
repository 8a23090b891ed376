// Incomplete factors of subdomains: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, sections
// 12.2 and 14.3; the restricted additive Schwarz method of Cai and Sarkis, SIAM J. Sci. Comput. 21 (1999) 792.
//   M^-1 = sum_s Q_s^T M_s^-1 R_s
// R_s takes the rows of subdomain s (subdomains.hpp) out of a vector, Q_s the own ones of its results. M_s are the
// factors without fill of A_s = R_s A R_s^T: subdomain-ic0 has L L^T, subdomain-ilu0 has L U, stored as
// (I + L) D^-1 (I + U). Without overlap M has the blocks M_s and nothing else, so it is symmetric if they are. With
// overlap it is not: R_s reads the halo, Q_s^T does not write it.
//
// Subdomains do not wait for each other: a thread of the host solves and factors some of them, one after another, and a
// thread block of a device has one (device_subdomains.hpp). The same row functions compute in both. A device also finds
// subdomains of rows that follow each other (device_subdomain_rows.hpp); others the host finds for it.
//
// If a pivot is bad, diag(A_s) is added to A_s as ic0 and ilu0 add diag(A) to A (factorization.hpp), in that subdomain
// alone.
//
// Memory: a value and 14 bytes for each row, with halos, 16 on a host; a value and 2 bytes for each entry within
// subdomains, 4 on a host; there 8 vectors of the largest subdomain for each thread. New values: the values of the
// factors once more.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device/cache.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/parallel.hpp"
#include "core/partition.hpp"
#include "core/simulated_device.hpp"
#include "core/statistics.hpp"
#include "core/transfer.hpp"
#include "operators/multi_product.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/factors/factorization.hpp"
#include "preconditioners/subdomains/device_subdomain_rows.hpp"
#include "preconditioners/subdomains/device_subdomains.hpp"
#include "preconditioners/subdomains/host_subdomains.hpp"
#include "preconditioners/subdomains/subdomains.hpp"

namespace protean::detail {
namespace {

// A simulated device has as much shared memory as the smallest of the devices that are supported (sm_75).
constexpr std::int64_t simulated_shared_memory = 64 << 10;
// On a device, size auto: the largest of these of which two solves fit into the shared memory of a processor.
constexpr std::int64_t largest_size_there = 1024, smallest_size_there = 32;

template <class T>
struct SubdomainValues {
  Buffer<T> l, u, d;
  std::size_t bytes() const noexcept { return l.bytes() + u.bytes() + d.bytes(); }
};

template <class T, class Index>
SubdomainView<T, Index> view_of(std::int64_t count, const SubdomainArrays<Index>& a,
                                const SubdomainValues<T>& v) {
  SubdomainView<T, Index> view;
  view.count = count;
  view.first = a.first.data(), view.level_first = a.level_first.data();
  view.row = a.row.data(), view.level = a.level.data(), view.place = a.place.data();
  view.lower = {a.lower_first.data(), a.lower_ptr.data(), a.lower_col.data(), const_cast<T*>(v.l.data())};
  view.upper = {a.upper_first.data(), a.upper_ptr.data(), a.upper_col.data(), const_cast<T*>(v.u.data())};
  view.d = const_cast<T*>(v.d.data());
  return view;
}

// One vector as several.
template <class T>
MultiVectorView<T> as_columns(VectorView<T> v) {
  return {v.data, v.size, 1, v.size, VectorLayout::columns, v.space};
}

template <class T>
class SubdomainFactors final : public BySolving<T>, public HasMultiProduct<T> {
 public:
  SubdomainFactors(const LinearOperator<T>& A, const PreconditionerOptions& options, bool symmetric)
      : BySolving<T>(A),
        options_(options),
        symmetric_(symmetric),
        host_(A.context()->space() == Space::host ? A.context() : Context::host()) {
    const std::string_view missing = unavailable(options.partition);
    if (!missing.empty())
      throw NotAvailable(
          fmt::format("{} with partition metis: {}; or take partition: order", name(), missing));
  }

  std::string_view name() const noexcept override { return symmetric_ ? "subdomain-ic0" : "subdomain-ilu0"; }
  bool symmetric() const noexcept override { return symmetric_; }
  std::vector<PreconditionerFigure> figures() const override {
    if (!known_) return {};
    return {{"subdomains", static_cast<double>(known_->count)},
            {"subdomain_size", static_cast<double>(known_->size)},
            {"entries", static_cast<double>(known_->entries)},
            {"levels", static_cast<double>(known_->levels)},
            {"shift", shift_},
            {"shifted_subdomains", static_cast<double>(shifted_)}};
  }
  // Arrays move with a new pattern only.
  Recording recording() const noexcept override { return {true, 1 + layouts_, this->bytes(), true}; }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const bool analyse = pattern_changed || !known_;
    if (!on_device()) return set_up_on_host(symmetric_rows(A), analyse);
    std::optional<CsrMatrix<T>> there = csr_of(A);
    if (there && there->pattern.space != Space::device) there.reset();
    // Entries that the subdomains leave out may have grown.
    if (!analyse && left_out_) (void)symmetric_rows(A);
    std::optional<SubdomainsThere> made;
    if (analyse && there && options_.partition == SubdomainPartition::order && options_.overlap == 0)
      made = subdomains_on_device<T>(A.context(), *there, sizes_there(), task(), shared_memory());
    if ((analyse && !made) || !there) {
      const CsrMatrix<T> csr = symmetric_rows(A);
      if (analyse) made = found_on_host(csr);
      if (!there) there = upload(A.context(), csr);
    }
    set_up_there(*there, std::move(made));
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    solve(T(1), as_columns(r), T(0), as_columns(z));
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return here_.bytes() + there_.bytes() + values_.bytes() + work_.bytes();
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    this->require_setup();
    if (alpha == T(0)) return multi_scale<T>(*this->context(), beta, Y);
    solve(alpha, X, beta, Y);
  }

 private:
  bool on_device() const noexcept { return this->context()->space() == Space::device; }
  FactorTask task() const { return {name(), symmetric_, options_.zero_diagonal}; }
  FactorRules rules() const { return {symmetric_, options_.zero_diagonal == ZeroDiagonal::one}; }

  static KnownSubdomains known_of(const Subdomains& all) {
    KnownSubdomains known;
    known.count = all.count, known.size = all.size, known.entries = all.entries;
    known.levels = all.most_levels, known.most_rows = all.most_rows;
    known.places = all.row.size(), known.lower = all.lower.col.size(), known.upper = all.upper.col.size();
    return known;
  }

  void solve(T alpha, const MultiVectorView<const T>& R, T beta, const MultiVectorView<T>& Z) const {
    const Context& context = *this->context();
    if (on_device()) {
      const auto view = view_of(known_->count, there_, values_);
#if defined(PROTEAN_HAVE_CUDA)
      if (!context.simulated())
        return device::solve_subdomains<T>(context, view, known_->launch, alpha, R, beta, Z);
#endif
      const DeviceWork work(context, {R.data, Z.data});
      if (work.ended()) return;
      std::vector<T> x(static_cast<std::size_t>(known_->most_rows * most_columns));
      return solve_some(view, {0, known_->count}, alpha, R, beta, Z, x.data());
    }
    const std::lock_guard lock(mutex_);
    const auto view = view_of(known_->count, here_, values_);
    const std::int64_t own = known_->most_rows * most_columns;
    parallel(threads(), [&](int part, int parts) {
      solve_some(view, even_range(known_->count, part, parts), alpha, R, beta, Z, work_.data() + part * own);
    });
  }
  // As many as the workspace is for.
  int threads() const noexcept { return useful_parts(*this->context(), known_->entries + known_->places); }

  // The entries on the host; of a symmetric matrix the entries that have a mirrored one.
  CsrMatrix<T> symmetric_rows(const LinearOperator<T>& A) {
    CsrMatrix<T> csr = finite_rows(A, host_, name());
    if (!symmetric_) return csr;
    const std::int64_t all = csr.nonzeros();
    csr = mirrored_entries(name(), false, host_, csr);
    left_out_ = csr.nonzeros() < all;
    return csr;
  }

  void set_up_on_host(const CsrMatrix<T>& csr, bool analyse) {
    (void)usable_diagonal<T>(name(), host_, csr, options_.zero_diagonal, symmetric_);
    SubdomainArrays<std::int32_t> made;
    std::optional<KnownSubdomains> known = known_;
    if (analyse) {
      Subdomains all = make_subdomains(
          host_, csr.pattern,
          options_.subdomain_size > 0 ? options_.subdomain_size : subdomain_size_on_host(csr.rows()),
          options_.partition, options_.overlap);
      known = known_of(all);
      made.first = std::move(all.first), made.level_first = std::move(all.level_first);
      made.lower_first = std::move(all.lower.first), made.upper_first = std::move(all.upper.first);
      made.row = std::move(all.row), made.level = std::move(all.level), made.place = std::move(all.place);
      made.lower_ptr = std::move(all.lower.ptr), made.upper_ptr = std::move(all.upper.ptr);
      made.lower_col = std::move(all.lower.col), made.upper_col = std::move(all.upper.col);
    }
    const SubdomainArrays<std::int32_t>& arrays = analyse ? made : here_;
    SubdomainValues<T> values = room_for(*known);
    const auto view = view_of(known->count, arrays, values);
    const int parts = useful_parts(*host_, known->entries + known->places);
    std::vector<SubdomainStatus> found(static_cast<std::size_t>(parts));
    parallel(parts, [&](int part, int of) {
      SubdomainWorkspace<T> work{std::vector<T*>(static_cast<std::size_t>(known->most_rows), nullptr)};
      const Range mine = even_range(known->count, part, of);
      for (std::int64_t s = mine.begin; s < mine.end; ++s) {
        checkpoint();
        factor_subdomain(view, s, csr, rules(), work, found[static_cast<std::size_t>(part)]);
      }
    });
    SubdomainStatus status;
    for (const SubdomainStatus& one : found) {
      status.trouble |= one.trouble, status.shifted += one.shifted;
      status.shift = std::max(status.shift, one.shift), status.broken = std::min(status.broken, one.broken);
    }
    require_factors(status, arrays.first.data(), arrays.row.data());
    Buffer<T> work;
    if (analyse) work = Buffer<T>(host_, parts * known->most_rows * most_columns);
    if (analyse) here_ = std::move(made), known_ = known, work_ = std::move(work), ++layouts_;
    std::swap(values_, values);
    took(status);
  }

  // made: if the pattern is new.
  void set_up_there(const CsrMatrix<T>& there, std::optional<SubdomainsThere> made) {
    const ContextPtr& context = this->context();
    const KnownSubdomains* const known = made ? &made->known : &*known_;
    const SubdomainArrays<std::uint16_t>& arrays = made ? made->arrays : there_;
    SubdomainValues<T> values = room_for(*known);
    const auto view = view_of(known->count, arrays, values);
    SubdomainStatus status;
    if (context->simulated()) {
      const DeviceWork open(*context);
      SubdomainWorkspace<T> work{std::vector<T*>(static_cast<std::size_t>(known->most_rows), nullptr)};
      for (std::int64_t s = 0; s < known->count; ++s) factor_subdomain(view, s, there, rules(), work, status);
    } else {
#if defined(PROTEAN_HAVE_CUDA)
      Buffer<SubdomainStatus> found(context, 1);
      copy_bytes(*context, found.data(), Space::device, &status, Space::host, sizeof status);
      if (made) device::prepare_subdomains<T>(*context, known->launch);
      device::factor_subdomains<T>(*context, view, known->launch, there, rules(),
                                   64 * std::numeric_limits<T>::epsilon(), found.data());
      copy_bytes(*context, &status, Space::host, found.data(), Space::device, sizeof status);
#endif
    }
    if (status.trouble & (entry_not_finite | diagonal_unusable | diagonal_negative))
      refuse_entries<T>(task(), host_, *context, there);
    if (symmetric_)
      refuse_asymmetry<T>(name(), false, std::bit_cast<double>(status.largest_difference),
                          std::bit_cast<double>(status.least_row), *host_,
                          [&] { return sorted_on_host(host_, *context, there); });
    if (status.broken != ~0ull || (status.trouble & factor_overflow)) {
      const Buffer<std::int64_t> first = fetched(arrays.first);
      const Buffer<std::int32_t> row = fetched(arrays.row);
      require_factors(status, first.data(), row.data());
    }
    if (made) {
      there_ = std::move(made->arrays), values_ = std::move(values), known_ = made->known, ++layouts_;
    } else {
      // To where the old ones are, so that recorded work stays right.
      const auto keep = [&](Buffer<T>& to, const Buffer<T>& from) {
        copy_bytes(*context, to.data(), Space::device, from.data(), Space::device, to.bytes());
      };
      this->change_arrays(
          [&] { keep(values_.l, values.l), keep(values_.u, values.u), keep(values_.d, values.d); });
    }
    took(status);
  }

  SubdomainValues<T> room_for(const KnownSubdomains& known) const {
    const ContextPtr& context = this->context();
    return {Buffer<T>(context, known.lower), Buffer<T>(context, known.upper),
            Buffer<T>(context, known.places)};
  }
  void took(const SubdomainStatus& status) {
    shift_ = subdomain_shift(status.shift), shifted_ = status.shifted;
  }

  // first, row: as in Subdomains, in host memory.
  void require_factors(const SubdomainStatus& status, const std::int64_t* first,
                       const std::int32_t* row) const {
    if (status.broken != ~0ull) {
      const auto s = static_cast<std::int64_t>(status.broken & 0xffffffffu);
      throw BadMatrix(
          fmt::format("{} broke down with every shift up to {}: the pivot of row {} (from 0) is {} in "
                      "subdomain {}, {}; use another subdomain_size or preconditioner",
                      name(), subdomain_shift(most_shifts - 1), status.broken >> 32,
                      symmetric_ ? "not positive" : "zero or not finite", s,
                      rows_text(row + first[s], first[s + 1] - first[s])));
    }
    if (status.trouble & factor_overflow) refuse_overflow<T>(name());
  }
  // "which has 32 rows from row 64 to row 95"
  static std::string rows_text(const std::int32_t* row, std::int64_t rows) {
    const auto global = [](std::int32_t i) { return i < 0 ? ~i : i; };
    return fmt::format("which has {} row{} from row {} to row {}", rows, rows == 1 ? "" : "s", global(row[0]),
                       global(row[rows - 1]));
  }

  // The sizes of a subdomain that may be chosen on a device; the last one must fit.
  std::vector<std::int64_t> sizes_there() const {
    if (options_.subdomain_size > 0) return {options_.subdomain_size};
    std::vector<std::int64_t> sizes;
    for (std::int64_t size = largest_size_there; size >= smallest_size_there; size /= 2)
      sizes.push_back(size);
    return sizes;
  }
  // Bytes of a thread block.
  std::int64_t shared_memory() const {
#if defined(PROTEAN_HAVE_CUDA)
    if (!this->context()->simulated()) return device::shared_memory_of_block(*this->context());
#endif
    return simulated_shared_memory;
  }

  // Subdomains of a matrix in host memory, on the device.
  SubdomainsThere found_on_host(const CsrMatrix<T>& csr) const {
    SubdomainsThere made;
    const Subdomains all = fitting_subdomains(csr.pattern, made.known);
    SubdomainArrays<std::uint16_t>& to = made.arrays;
    to.first = sent(all.first), to.level_first = sent(all.level_first);
    to.lower_first = sent(all.lower.first), to.upper_first = sent(all.upper.first);
    to.row = sent(all.row), to.level = sent(all.level), to.place = sent(narrow(all.place));
    to.lower_ptr = sent(all.lower.ptr), to.upper_ptr = sent(all.upper.ptr);
    to.lower_col = sent(narrow(all.lower.col)), to.upper_col = sent(narrow(all.upper.col));
    return made;
  }

  // Subdomains whose solves and factors fit into the shared memory of a thread block; known: what remains of them.
  Subdomains fitting_subdomains(const SparsityPattern& A, KnownSubdomains& known) const {
    const std::int64_t shared = shared_memory();
    const std::vector<std::int64_t> sizes = sizes_there();
    for (const std::int64_t size : sizes) {
      Subdomains all = make_subdomains(host_, A, size, options_.partition, options_.overlap);
      SubdomainNeeds needs;
      std::int64_t largest = 0, need = 0;  // the subdomain that needs most
      for (std::int64_t s = 0; s < all.count; ++s) {
        const SubdomainShape shape{all.rows(s), all.lower.first[s + 1] - all.lower.first[s],
                                   all.upper.first[s + 1] - all.upper.first[s], all.levels(s)};
        SubdomainNeeds one;
        one.add(shape, sizeof(T)), needs.add(shape, sizeof(T));
        const std::int64_t both = std::max(one.factors, one.columns[0]);
        if (both > need) need = both, largest = s;
      }
      const bool last = size == sizes.back();
      if (needs.have_room(shared, !last)) {
        known = known_of(all);
        known.launch = subdomain_launch(known, needs, shared);
        return all;
      }
      if (!last) continue;
      const bool chosen = options_.subdomain_size == 0;
      throw BadArgument(fmt::format(
          "{} keeps a subdomain in the shared memory of a thread block, which has {} bytes here, but "
          "subdomain {}, {}, needs {}; take {}{}",
          name(), shared, largest, rows_text(all.row.data() + all.first[largest], all.rows(largest)), need,
          chosen ? "another preconditioner" : "a smaller subdomain_size, or auto",
          options_.overlap > 0 ? ", or overlap: 0" : ""));
    }
    return {};
  }

  template <class U>
  Buffer<U> sent(const Buffer<U>& from) const {
    Buffer<U> there(this->context(), from.size());
    copy_bytes(*this->context(), there.data(), Space::device, from.data(), Space::host, there.bytes());
    return there;
  }
  template <class U>
  Buffer<U> fetched(const Buffer<U>& from) const {
    Buffer<U> here(host_, from.size());
    copy_bytes(*this->context(), here.data(), Space::host, from.data(), Space::device, here.bytes());
    return here;
  }
  // Places of subdomains that fit are below 2^16.
  Buffer<std::uint16_t> narrow(const Buffer<std::int32_t>& from) const {
    Buffer<std::uint16_t> made(host_, from.size());
    std::transform(from.begin(), from.end(), made.begin(),
                   [](std::int32_t place) { return static_cast<std::uint16_t>(place); });
    return made;
  }

  PreconditionerOptions options_;
  bool symmetric_;
  ContextPtr host_;  // where subdomains are found that the device does not find
  std::optional<KnownSubdomains> known_;
  SubdomainArrays<std::int32_t> here_;    // on a host
  SubdomainArrays<std::uint16_t> there_;  // on a device
  SubdomainValues<T> values_;
  double shift_ = 0;
  std::int32_t shifted_ = 0;
  bool left_out_ = false;      // entries without a mirrored one
  std::uint64_t layouts_ = 0;  // how often the arrays were made
  mutable std::mutex mutex_;
  mutable Buffer<T> work_;  // of the threads of a host
};

}  // namespace

template <class T>
MadePreconditioner<T> make_subdomain_ic0(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<SubdomainFactors<T>>(A, options, true);
}
template <class T>
MadePreconditioner<T> make_subdomain_ilu0(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<SubdomainFactors<T>>(A, options, false);
}

#define PROTEAN_INSTANTIATE(T)                                                        \
  template MadePreconditioner<T> make_subdomain_ic0<T>(const LinearOperator<T>&,      \
                                                       const PreconditionerOptions&); \
  template MadePreconditioner<T> make_subdomain_ilu0<T>(const LinearOperator<T>&,     \
                                                        const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
