// BCSR multiplied by Kokkos, on the arrays of bcsr.cpp. It works as csr_kokkos.cpp does; a term is one row of a block.
#include "formats/engines/blocks/blocks.hpp"
#include "formats/engines/library/kokkos_matrix.hpp"

namespace protean::formats {
namespace {

template <int C, class Exec, class T>
struct BlockTerms {
  std::int64_t cols;
  std::int32_t R;
  KokkosArray<Exec, const std::int64_t> block_ptr;
  KokkosArray<Exec, const std::int32_t> block_col;
  KokkosArray<Exec, const T> values, x;

  struct Row {
    const BlockTerms& a;
    std::int64_t begin, end;
    int row_in_block;
    KOKKOS_FUNCTION T term(std::int64_t b) const {
      const std::int64_t value = (b * a.R + row_in_block) * C, col = std::int64_t{a.block_col(b)} * C;
      T sum = 0;
      if (col + C <= a.cols)
        for (int c = 0; c < C; ++c) sum += a.values(value + c) * a.x(col + c);
      else
        for (int c = 0; c < static_cast<int>(a.cols - col); ++c) sum += a.values(value + c) * a.x(col + c);
      return sum;
    }
  };
  KOKKOS_FUNCTION Row row(std::int64_t r) const {
    const auto i = static_cast<std::int32_t>(r) / R;
    return {*this, block_ptr(i), block_ptr(i + 1), static_cast<std::int32_t>(r) - i * R};
  }
};

template <class Exec, class T>
struct BlockDiagonal {
  std::int64_t R, C;
  KokkosArray<Exec, const std::int64_t> block_ptr;
  KokkosArray<Exec, const std::int32_t> block_col;
  KokkosArray<Exec, const T> values;
  KokkosArray<Exec, T> d;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    const std::int64_t i = r / R;
    T found = 0;
    for (std::int64_t b = block_ptr(i); b < block_ptr(i + 1); ++b)
      if (block_col(b) == r / C) found = values((b * R + r % R) * C + r % C);
    d(r) = found;
  }
};

template <class T>
class BcsrKokkos final : public KokkosOnArrays<T, BlockView<T>> {
 public:
  explicit BcsrKokkos(const BuildRequest<T>& request) : KokkosOnArrays<T, BlockView<T>>(request) {
    if (request.params.word("order") != "blocks")
      throw FormatRefused(
          "bcsr", "Kokkos' kernel reads one block after another: set order to blocks, or take kernel native");
  }

  void diagonal(VectorView<T> d) const override {
    const BlockView<T> a = this->view();
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      kokkos_for("protean::bcsr_diagonal", exec, stop, d.size,
                 BlockDiagonal<Exec, T>{a.R, a.C, kokkos_array<Exec>(a.block_ptr, a.block_rows + 1),
                                        kokkos_array<Exec>(a.block_col, a.blocks),
                                        kokkos_array<Exec>(a.values, a.blocks * a.R * a.C),
                                        kokkos_array<Exec>(d.data, d.size)});
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const BlockView<T> a = this->view();
    const double mean =
        static_cast<double>(a.blocks) / static_cast<double>(std::max<std::int64_t>(1, a.block_rows));
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      with_size(a.C, [&](auto C) {
        constexpr int width = decltype(C)::value;
        kokkos_rows("protean::bcsr", exec, stop, a.rows, mean,
                    BlockTerms<width, Exec, T>{a.cols, static_cast<std::int32_t>(a.R),
                                               kokkos_array<Exec>(a.block_ptr, a.block_rows + 1),
                                               kokkos_array<Exec>(a.block_col, a.blocks),
                                               kokkos_array<Exec>(a.values, a.blocks * a.R * a.C),
                                               kokkos_array<Exec>(x.data, x.size)},
                    KokkosResult<Exec, T>{alpha, beta, kokkos_array<Exec>(y.data, y.size)});
      });
    });
    this->has_multiplied();
  }
};

}  // namespace

PROTEAN_DEFINE_KOKKOS_KERNEL(bcsr, BcsrKokkos)

}  // namespace protean::formats
