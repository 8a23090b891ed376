// Sums over the rows of several vectors in fixed chunks, and a scalar for each vector. Private to multi_blas1.cpp:
// static functions, which the compiler puts into their callers.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/blas1.hpp"
#include "core/parallel.hpp"

namespace protean::detail {

using Size = std::int64_t;

// Rows of a chunk: at most 256 chunks, of 1024 rows or more.
struct Chunks {
  explicit Chunks(Size all)
      : rows(std::max<Size>(1024, (all + 255) / 256)),
        count(std::max<Size>(1, (all + rows - 1) / rows)),
        n(all) {}
  Range operator[](Size i) const { return {std::min(n, i * rows), std::min(n, (i + 1) * rows)}; }
  Size rows, count, n;
};

// body(begin, end, sums) leaves K sums for each of w vectors; they are added in the order of the chunks, and
// use(k, j, total) gets each.
template <class T, class Body, class Use>
static void sum_chunks(const Context& context, Size n, Size w, int K, Body&& body, Use&& use) {
  const Chunks chunks(n);
  const Size each = K * w;
  std::array<T, 2048> few;
  std::vector<T> many(chunks.count * each > std::ssize(few) ? static_cast<std::size_t>(chunks.count * each)
                                                            : 0);
  T* const sums = many.empty() ? few.data() : many.data();
  parallel(static_cast<int>(std::min<Size>(useful_parts(context, n * w), chunks.count)),
           [&](int part, int parts) {
             const Range mine = even_range(chunks.count, part, parts);
             for (Size c = mine.begin; c < mine.end; ++c)
               body(chunks[c].begin, chunks[c].end, sums + c * each);
           });
  for (int k = 0; k < K; ++k)
    for (Size j = 0; j < w; ++j) {
      T total = 0;
      for (Size c = 0; c < chunks.count; ++c) total += sums[c * each + k * w + j];
      use(k, j, total);
    }
}

// Up to that many scalars lie on the stack.
inline constexpr Size on_stack = 64;

template <class T>
class Scalars {
 public:
  explicit Scalars(Size count) : many_(count > on_stack ? static_cast<std::size_t>(count) : 0) {}
  T* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  T& operator[](Size j) noexcept { return data()[j]; }

 private:
  std::array<T, on_stack> few_;
  std::vector<T> many_;
};

// `running`, or null if all run.
template <class T>
static const T* run_of(const T* running, Size w) {
  return std::all_of(running, running + w, [](T r) { return r != T(0); }) ? nullptr : running;
}

// The values of a coefficient for vectors 0 .. w - 1.
template <class T>
static Scalars<T> values(const Coefficient<T>& c, Size w) {
  Scalars<T> all(w);
  for (Size j = 0; j < w; ++j)
    all[j] = Coefficient<T>(c.factor, c.numerator ? c.numerator + j : nullptr,
                            c.denominator ? c.denominator + j : nullptr, c.demand)
                 .value();
  return all;
}
template <class T>
static bool is_plain_zero(const Coefficient<T>& c) {
  return c.factor == T(0) && !c.numerator && !c.denominator;
}

}  // namespace protean::detail
