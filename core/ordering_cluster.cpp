// Clustering of rows that share columns: signatures by all threads, the greedy choice by one.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "core/ordering.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

constexpr int hashes = 4;
constexpr int candidates = 16;  // for each hash
constexpr std::uint32_t no_columns = std::numeric_limits<std::uint32_t>::max();
using Signature = std::array<std::uint32_t, hashes>;

// A bijection of 32 bits for each of the hashes (the finalizer of MurmurHash3 after a multiplication).
std::uint32_t hash_of(std::uint32_t column, int which) {
  constexpr std::uint32_t factor[hashes] = {0x9e3779b1u, 0x85ebca77u, 0xc2b2ae3du, 0x27d4eb2fu};
  std::uint32_t h = (column + 1) * factor[which];
  h ^= h >> 16, h *= 0x85ebca6bu;
  h ^= h >> 13, h *= 0xc2b2ae35u;
  return h ^ (h >> 16);
}

std::vector<Signature> signatures(const Context& context, const SparsityPattern& pattern) {
  std::vector<Signature> result(static_cast<std::size_t>(pattern.rows));
  const int parts = useful_parts(context, pattern.nonzeros);
  const std::vector<std::int64_t> borders = balanced_row_borders(pattern, parts);
  parallel(parts, [&](int part, int) {
    for (std::int64_t row = borders[part]; row < borders[part + 1]; ++row) {
      Signature least;
      least.fill(no_columns);
      for (const std::int32_t col : pattern.row(row))
        for (int h = 0; h < hashes; ++h)
          least[h] = std::min(least[h], hash_of(static_cast<std::uint32_t>(col), h));
      result[row] = least;
    }
  });
  return result;
}

// The rows sorted by one hash, equal ones by number: rows with the same hash are consecutive. Rows can be taken out.
class Buckets {
 public:
  Buckets(const std::vector<Signature>& signature, int which) {
    const auto n = static_cast<std::int32_t>(signature.size());
    row_.resize(signature.size()), place_.resize(signature.size());
    std::iota(row_.begin(), row_.end(), 0);
    std::stable_sort(row_.begin(), row_.end(), [&](std::int32_t a, std::int32_t b) {
      return signature[a][which] < signature[b][which];
    });
    for (std::int32_t k = 0; k < n; ++k) place_[row_[k]] = k;
    next_.resize(signature.size() + 1);
    std::iota(next_.begin(), next_.end(), 0);
  }

  void take_out(std::int32_t row) { next_[place_[row]] = place_[row] + 1; }

  // visit(row) for the rows that are left and follow `row`, until it returns false.
  template <class Visit>
  void after(std::int32_t row, Visit&& visit) {
    const auto n = static_cast<std::int32_t>(row_.size());
    for (std::int32_t k = left(place_[row]); k < n && visit(row_[k]); k = left(k + 1)) {}
  }

 private:
  // The first place from k on whose row is left (paths are halved on the way).
  std::int32_t left(std::int32_t k) {
    while (next_[k] != k) k = next_[k] = next_[next_[k]];
    return k;
  }
  std::vector<std::int32_t> row_, place_, next_;
};

}  // namespace

std::vector<std::int32_t> cluster_rows(const Context& context, const SparsityPattern& pattern) {
  const auto n = static_cast<std::int32_t>(pattern.rows);
  const std::vector<Signature> signature = signatures(context, pattern);
  std::vector<Buckets> buckets(hashes, Buckets({}, 0));
  parallel(std::min(context.threads(), hashes), [&](int part, int parts) {
    for (int h = part; h < hashes; h += parts) buckets[h] = Buckets(signature, h);
  });

  std::vector<std::int32_t> order;
  order.reserve(static_cast<std::size_t>(n));
  std::vector<bool> placed(static_cast<std::size_t>(n), false);
  for (std::int32_t first = 0; first < n; ++first) {
    if (placed[first]) continue;
    for (std::int32_t row = first; row >= 0;) {
      placed[row] = true, order.push_back(row);
      for (Buckets& bucket : buckets) bucket.take_out(row);
      std::int32_t best = -1;
      int most = 0;
      const Signature& mine = signature[row];
      if (mine[0] == no_columns) break;
      for (int h = 0; h < hashes; ++h) {
        int seen = 0;
        buckets[h].after(row, [&](std::int32_t other) {
          if (signature[other][h] != mine[h]) return false;
          int equal = 0;
          for (int i = 0; i < hashes; ++i) equal += signature[other][i] == mine[i];
          if (equal > most || (equal == most && other < best)) best = other, most = equal;
          return ++seen < candidates;
        });
      }
      row = best;
    }
  }
  return order;
}

}  // namespace protean
