// What the matrices multiplied by Kokkos have in common. One of our own kernels converts the matrix, which keeps the
// arrays of that kernel; Kokkos computes on them in place. Include this only in files compiled with Kokkos. Private to
// formats/.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>

#include "core/kokkos.hpp"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/view/array_views.hpp"

namespace protean::formats {

// A thread of a device works on one item of what a thread of the host works on many.
template <class Exec>
constexpr std::int64_t on_host_or_device(std::int64_t host, std::int64_t device) {
  return is_kokkos_host<Exec> ? host : device;
}

// y := alpha sum + beta y without reading y when beta is 0.
template <class Exec, class T>
struct KokkosResult {
  T alpha, beta;
  KokkosArray<Exec, T> y;
  KOKKOS_FUNCTION void store(std::int64_t row, T sum) const {
    y(row) = beta == T(0) ? alpha * sum : alpha * sum + beta * y(row);
  }
};

// Body{...}(i) for i in 0 .. n-1 unless the solve has ended.
template <class Exec, class Body>
struct KokkosLoop {
  Body body;
  KokkosStop<Exec> stop;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    if (!stop()) body(i);
  }
};
template <class Exec, class Body>
void kokkos_for(const char* name, const Exec& exec, const KokkosStop<Exec>& stop, std::int64_t n,
                const Body& body) {
  if (n > 0) Kokkos::parallel_for(name, KokkosRange<Exec>(exec, 0, n), KokkosLoop<Exec, Body>{body, stop});
}

// The products of rows that are stored one after another, with Terms::Row row(r) of row r, which has the
// terms row.term(k) for row.begin <= k < row.end. On a device some neighbouring lanes share a row, so that they
// read neighbouring terms.
template <class Exec, class T, class Terms>
struct KokkosRows {
  static constexpr std::int64_t rows_a_team_of_host = 512;
  static constexpr int threads_of_device = 256;
  using Member = typename KokkosTeams<Exec>::member_type;

  Terms terms;
  KokkosResult<Exec, T> result;
  std::int64_t rows, rows_a_team;
  KokkosStop<Exec> stop;

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    if (stop()) return;
    const std::int64_t first = static_cast<std::int64_t>(team.league_rank()) * rows_a_team;
    const std::int64_t end = first + rows_a_team < rows ? first + rows_a_team : rows;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, first, end), [&](const std::int64_t r) {
      const auto row = terms.row(r);
      T sum = 0;
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(team, row.begin, row.end),
          [&](const std::int64_t k, T& mine) { mine += row.term(k); }, sum);
      Kokkos::single(Kokkos::PerThread(team), [&] { result.store(r, sum); });
    });
  }
};

// terms_a_row: the mean number, by which the lanes of a row are chosen.
template <class Exec, class T, class Terms>
void kokkos_rows(const char* name, const Exec& exec, const KokkosStop<Exec>& stop, std::int64_t rows,
                 double terms_a_row, const Terms& terms, const KokkosResult<Exec, T>& result) {
  if (rows == 0) return;
  using Functor = KokkosRows<Exec, T, Terms>;
  int lanes = 1, threads = 1;
  if constexpr (!is_kokkos_host<Exec>) {
    while (lanes < 32 && lanes * 5 < terms_a_row) lanes *= 2;
    threads = Functor::threads_of_device / lanes;
  }
  const std::int64_t rows_a_team = on_host_or_device<Exec>(Functor::rows_a_team_of_host, threads);
  const std::int64_t teams = (rows + rows_a_team - 1) / rows_a_team;
  Kokkos::parallel_for(name, KokkosTeams<Exec>(exec, static_cast<int>(teams), threads, lanes),
                       Functor{terms, result, rows, rows_a_team, stop});
}

// A matrix whose kernel is kokkos. A derived class has product(exec, stop, alpha, x, beta, y), a template of the
// execution space; it calls the base's multiply() and main_diagonal().
template <class T>
class KokkosMatrix : public AssembledMatrix<T> {
 public:
  Recording recording() const noexcept final {
    Recording recording = AssembledMatrix<T>::recording();
    // The first launch of each kernel copies numbers to the device, which cannot be recorded.
    recording.allowed = multiplied_ && detail::kokkos_can_record(*this->context());
    return recording;
  }

 protected:
  explicit KokkosMatrix(const BuildRequest<T>& request) : AssembledMatrix<T>(request) {
    start_kokkos(*request.context);
  }
  void has_multiplied() const noexcept { multiplied_ = true; }

 private:
  mutable std::atomic<bool> multiplied_ = false;
};

// A matrix on the arrays of another kernel of its format.
template <class T, class View>
class KokkosOnArrays : public KokkosMatrix<T> {
 public:
  CsrMatrix<T> to_csr() const final { return arrays_->to_csr(); }
  std::size_t bytes() const noexcept override { return arrays_->bytes(); }

 protected:
  // By default the native kernel converts.
  explicit KokkosOnArrays(const BuildRequest<T>& request, std::string_view converter = "native")
      : KokkosMatrix<T>(request) {
    const Kernel& kernel = find_kernel(request.entry, converter, request.context->space());
    if constexpr (sizeof(T) == 8)
      arrays_ = kernel.make_f64(request);
    else
      arrays_ = kernel.make_f32(request);
  }
  void do_update_values(const CsrMatrix<T>& csr) final { arrays_->update_values(csr, SamePattern()); }
  View view() const { return dynamic_cast<const HasArrayView<View>&>(*arrays_).array_view(); }

 private:
  std::unique_ptr<AssembledMatrix<T>> arrays_;
};

}  // namespace protean::formats
