// How near the entries of x lie that a product reads, before and after a new order of the rows.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include <protean/core/csr.hpp>

namespace protean {

// Of a pattern in host memory, or of P A P^T.
struct Locality {
  std::int64_t bandwidth = 0;  // largest |i - j| over the entries (i, j)
  // Sum over the rows of i - (smallest column j <= i of the row): what an envelope below the diagonal holds (George
  // and Liu 1981, section 4.2). Of the pattern itself, not of A + A^T.
  std::int64_t profile = 0;
  // Lines of x (64 bytes: 8 entries) that a product reads, where each one is counted once in every `lines_rows`
  // rows that follow each other: a cache that forgets no line within them. x itself has cols / 8 lines.
  std::int64_t lines = 0;
};
inline constexpr std::int64_t lines_rows = 1024;
inline constexpr std::int64_t line_entries = 8;

// place: where each row and column goes (see Permutation), for a square pattern; empty: as it is. One pass; 4 bytes a
// line and thread of workspace. Throws ShapeMismatch where place has another size.
Locality locality(const Context& context, const SparsityPattern& pattern,
                  std::span<const std::int32_t> order = {}, std::span<const std::int32_t> place = {});

// What an order could gain, from a sample of a square pattern. It takes the time of about one product or less.
struct OrderForecast {
  // Lines of x a row (of rows that follow each other, counted as in Locality): as it is, and in an order that keeps
  // near rows together.
  double lines_now = 0, lines_reached = 0;
  // The predicted time of a product of csr in that order, as a part of the present one: ratio(csr_bytes).
  double product_ratio = 1;
  double csr_bytes = 0, line_bytes = 0;  // a row in csr; a line of x, with its weight
  // About how many levels a breadth-first search of the deepest part has, from one end to the other. It follows from how
  // fast the balls grow, as if the part had all rows, so many equal parts have fewer. Where an order would pay for a pattern on
  // a device, one ball grows to deep_rows rows. A part with fewer rows is then known exactly.
  double levels = 0;

  // The same for a matrix of so many bytes a row. Its bytes are read in every order, its lines of x depend on the order:
  // the fewer bytes a format needs, the more an order gains.
  double ratio(double bytes_a_row) const {
    const double now = bytes_a_row + line_bytes * lines_now;
    return now > 0 ? (bytes_a_row + line_bytes * lines_reached) / now : 1;
  }
  // Time of permuting a vector of n entries of `value_bytes`, as a part of a product of csr in the present order. Each entry
  // is read from a line of its own.
  double permutation_share(std::size_t value_bytes) const {
    const double product = csr_bytes + line_bytes * lines_now;
    return product > 0 ? (4 + static_cast<double>(value_bytes) + line_bytes) / product : 0;
  }
};
// "rows now read 6 lines of x each, and with near rows together 1.3"
std::string lines_text(const OrderForecast& forecast);

// The lines as they are: in some stretches of lines_rows rows. Those that an order can reach: breadth-first balls of
// lines_rows rows are grown around some rows. If the rows of a ball followed each other, its own rows would take one
// line for 8 of them; the columns outside of the ball belong to other balls, and each of them is counted as a line. On a mesh few columns
// lie outside; on a random graph nearly all do, so no order helps. A ball of an unsymmetric pattern follows the
// entries of the rows only. Times are predicted from bytes: those of the matrix, and `line_weight` of the bytes of each
// line, since most come from a cache.
// The pattern is in memory of the context. From a device only the rows that are looked at are copied, level by level.
OrderForecast forecast_order(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes);
OrderForecast forecast_order(const SparsityPattern& pattern, std::size_t value_bytes);  // in host memory
inline constexpr std::int64_t deep_rows = 32768;
inline constexpr double line_weight = 0.4;
// An x of so many bytes is read fast enough in any order. Larger ones are not, although a second cache holds them: with 0.35 to
// 0.9 MB a product in random order takes 1.4 to 2.3 times as long (docs/results/order-host.md).
inline constexpr std::size_t cached_bytes_of_x = std::size_t{1} << 18;

}  // namespace protean
