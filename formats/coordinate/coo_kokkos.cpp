// COO multiplied by Kokkos, on the arrays of coo.cpp. The entries are cut into pieces of equal length, one per thread.
// A piece adds to the rows that begin in it. Its sum for a row that began earlier is its carry, which the piece where
// that row began adds afterwards. So no atomics are used, and the result is the same in every run. There is one carry
// per piece in addition to the arrays.
// Source: N. Bell, M. Garland, SC 2009, doi 10.1145/1654059.1654078 (segmented reduction with carries).
#include "core/buffer.hpp"
#include "formats/engines/library/kokkos_matrix.hpp"

namespace protean::formats {
namespace {

// Entries of a piece on a device: few, so that neighbouring threads read neighbouring cache lines.
constexpr std::int64_t device_piece = 16;

template <class Exec, class T>
struct CooPieces {
  std::int64_t size, length;
  KokkosArray<Exec, const std::int32_t> row, col;
  KokkosArray<Exec, const T> values;

  KOKKOS_FUNCTION std::int64_t begin(std::int64_t piece) const { return piece * length; }
  KOKKOS_FUNCTION std::int64_t end(std::int64_t piece) const {
    return (piece + 1) * length < size ? (piece + 1) * length : size;
  }
  // Whether entry k belongs to the same row as the entry before it.
  KOKKOS_FUNCTION bool goes_on(std::int64_t k) const { return k > 0 && k < size && row(k) == row(k - 1); }
};

// y := beta y; beta == 0 does not read y
template <class Exec, class T>
struct CooScale {
  T beta;
  KokkosArray<Exec, T> y;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const { y(r) = beta == T(0) ? T(0) : beta * y(r); }
};

template <class Exec, class T>
struct CooProduct {
  CooPieces<Exec, T> a;
  T alpha;
  KokkosArray<Exec, const T> x;
  KokkosArray<Exec, T> y, carries;

  KOKKOS_FUNCTION T sum_row(std::int64_t& k, std::int64_t end) const {
    const std::int32_t r = a.row(k);
    T sum = 0;
    for (; k < end && a.row(k) == r; ++k) sum += a.values(k) * x(a.col(k));
    return sum;
  }
  KOKKOS_FUNCTION void operator()(std::int64_t piece) const {
    std::int64_t k = a.begin(piece);
    const std::int64_t end = a.end(piece);
    carries(piece) = a.goes_on(k) ? sum_row(k, end) : T(0);
    while (k < end) {
      const std::int32_t r = a.row(k);
      y(r) += alpha * sum_row(k, end);
    }
  }
};

template <class Exec, class T>
struct CooCarries {
  CooPieces<Exec, T> a;
  T alpha;
  KokkosArray<Exec, const T> carries;
  KokkosArray<Exec, T> y;

  KOKKOS_FUNCTION void operator()(std::int64_t piece) const {
    const std::int64_t begin = a.begin(piece), end = a.end(piece);
    if (!a.goes_on(end)) return;
    const std::int32_t r = a.row(end - 1);
    if (a.row(begin) == r && a.goes_on(begin)) return;  // it began in an earlier piece
    T sum = 0;
    std::int64_t next = piece + 1;
    for (; a.goes_on(a.end(next)) && a.row(a.end(next)) == r; ++next) sum += carries(next);
    y(r) += alpha * (sum + carries(next));
  }
};

template <class Exec, class T>
struct CooDiagonal {
  KokkosArray<Exec, const std::int32_t> row, col;
  KokkosArray<Exec, const T> values;
  KokkosArray<Exec, T> d;
  KOKKOS_FUNCTION void operator()(std::int64_t k) const {
    if (row(k) == col(k)) d(row(k)) = values(k);
  }
};

template <class T>
class CooKokkos final : public KokkosOnArrays<T, CooView<T>> {
 public:
  // On a device the native kernel keeps more than the three arrays.
  explicit CooKokkos(const BuildRequest<T>& request)
      : KokkosOnArrays<T, CooView<T>>(request,
                                      request.context->space() == Space::host ? "native" : "atomic") {
    length_ = device_piece;
    if (request.context->space() == Space::host) {
      const std::int64_t threads = KokkosHost().concurrency(), pieces = threads == 1 ? 1 : 4 * threads;
      length_ = std::max<std::int64_t>(1, (this->nonzeros() + pieces - 1) / pieces);
    }
    carries_ = Buffer<T>(request.context, (this->nonzeros() + length_ - 1) / length_);
  }
  std::size_t bytes() const noexcept override {
    return KokkosOnArrays<T, CooView<T>>::bytes() + carries_.bytes();
  }

  void diagonal(VectorView<T> d) const override {
    const CooView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      const auto all = kokkos_array<Exec>(d.data, d.size);
      kokkos_for("protean::coo_scale", exec, stop, d.size, CooScale<Exec, T>{T(0), all});
      kokkos_for("protean::coo_diagonal", exec, stop, a.size,
                 CooDiagonal<Exec, T>{kokkos_array<Exec>(a.row, a.size), kokkos_array<Exec>(a.col, a.size),
                                      kokkos_array<Exec>(a.values, a.size), all});
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const CooView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      const CooPieces<Exec, T> pieces{a.size, length_, kokkos_array<Exec>(a.row, a.size),
                                      kokkos_array<Exec>(a.col, a.size),
                                      kokkos_array<Exec>(a.values, a.size)};
      const auto result = kokkos_array<Exec>(y.data, y.size);
      // Several callers take turns in with_kokkos(), so one array of carries is enough.
      const auto carries = kokkos_array<Exec>(const_cast<T*>(carries_.data()), carries_.size());
      if (beta != T(1)) kokkos_for("protean::coo_scale", exec, stop, y.size, CooScale<Exec, T>{beta, result});
      kokkos_for("protean::coo", exec, stop, carries_.size(),
                 CooProduct<Exec, T>{pieces, alpha, kokkos_array<Exec>(x.data, x.size), result, carries});
      kokkos_for("protean::coo_carries", exec, stop, carries_.size(),
                 CooCarries<Exec, T>{pieces, alpha, carries, result});
    });
    this->has_multiplied();
  }

 private:
  std::int64_t length_;
  Buffer<T> carries_;
};

}  // namespace

PROTEAN_DEFINE_KOKKOS_KERNEL(coo, CooKokkos)

}  // namespace protean::formats
