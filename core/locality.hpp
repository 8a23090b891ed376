// How near the entries of x lie that a product reads, before and after a new order of the rows.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// The locality of a pattern in host memory, or of P A P^T.
struct Locality {
  std::int64_t bandwidth = 0;  // largest |i - j| over the entries (i, j)
  // Sum over the rows of i - (smallest column j <= i of the row): the size of an envelope below the diagonal (George
  // and Liu 1981, section 4.2). For the pattern itself, not for A + A^T.
  std::int64_t profile = 0;
  // Lines of x (64 bytes: 8 entries) that a product reads, each counted once in every `lines_rows` rows that follow
  // each other, as for a cache that forgets no line within them. x itself has cols / 8 lines.
  std::int64_t lines = 0;
};
inline constexpr std::int64_t lines_rows = 1024;
inline constexpr std::int64_t line_entries = 8;

// place: where each row and column goes (see Permutation), for a square pattern; empty: each stays. One pass; 4 bytes a
// line and thread of workspace. Throws ShapeMismatch if place has another size.
Locality locality(const Context& context, const SparsityPattern& pattern,
                  std::span<const std::int32_t> order = {}, std::span<const std::int32_t> place = {});

// What another order of the rows could gain, estimated from a sample of a square pattern. The estimate takes the time
// of about one product or less.
struct OrderForecast {
  // Lines of x a row (in rows that follow each other, counted as in Locality): in the present order, and in an order
  // that keeps near rows together.
  double lines_now = 0, lines_reached = 0;
  // The predicted time of a product of csr in that order, as a part of the present one: ratio(csr_bytes).
  double product_ratio = 1;
  double csr_bytes = 0, line_bytes = 0;  // a row in csr; a line of x, with its weight
  // Estimated number of levels of a breadth-first search through the deepest connected part of the graph, from one end
  // to the other. The estimate extrapolates how fast balls of the graph grow, and assumes that the part has all rows.
  // So it is too large if there are many equal parts. For a pattern on a device for which an order would pay, one ball
  // grows to deep_rows rows. A part with fewer rows is then known exactly.
  double levels = 0;

  // product_ratio for a format with bytes_a_row bytes a row. Its bytes are read in every order, and the lines of x
  // depend on the order. So an order gains more in a format with fewer bytes.
  double ratio(double bytes_a_row) const {
    const double now = bytes_a_row + line_bytes * lines_now;
    return now > 0 ? (bytes_a_row + line_bytes * lines_reached) / now : 1;
  }
  // Time of permuting a vector with entries of value_bytes bytes, divided by the time of a product of csr in the
  // present order. Each entry is assumed to read a separate line.
  double permutation_share(std::size_t value_bytes) const {
    const double product = csr_bytes + line_bytes * lines_now;
    return product > 0 ? (4 + static_cast<double>(value_bytes) + line_bytes) / product : 0;
  }
};
namespace PROTEAN_HIDDEN detail {
// "rows now read 6 lines of x each, and with near rows together 1.3"
std::string lines_text(const OrderForecast& forecast);
}  // namespace detail

// The present lines are counted in some stretches of lines_rows consecutive rows. For the lines that an order can
// reach, breadth-first balls of lines_rows rows are grown around some rows. If the rows of a ball followed each other,
// the entries of x that belong to the ball would take one line for 8 rows. The columns outside the ball belong to other
// balls; each of them is counted as one line. On a mesh few columns lie outside. On a random graph nearly all do, so no
// order helps. In an unsymmetric pattern a ball follows the entries of the rows only. Times are predicted from bytes:
// the bytes of the matrix, and line_weight times the bytes of each line, since most lines come from a cache.
//
// The pattern is in memory of the context. From a device only the rows that are looked at are copied, level by level.
OrderForecast forecast_order(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes);
OrderForecast forecast_order(const SparsityPattern& pattern, std::size_t value_bytes);  // in host memory
inline constexpr std::int64_t deep_rows = 32768;
inline constexpr double line_weight = 0.4;
// An x of at most this many bytes is read fast in any order. A larger one is not, even if a second-level cache holds
// it: with an x of 0.35 to 0.9 MB a product in random order takes 1.4 to 2.3 times as long (docs/results/switching.md).
inline constexpr std::size_t cached_bytes_of_x = std::size_t{1} << 18;

}  // namespace protean
