// Every layout against CSR on matrices of a random grammar, with random parameters, through a random sequence of
// products, diagonals, new values and conversions back: the same entries to the bit, and products within Wilkinson's
// bound. The guarded tests draw shapes; here the patterns and the values are unusual: empty, a full row or column,
// entries given twice, far jumps, one value everywhere, many magnitudes, subnormal numbers, zeros of both signs,
// infinities. Environment:
//
//   PROTEAN_MATRICES_SEED=7      that seed instead of the usual ones
//   PROTEAN_MATRICES_COUNT=5000  this many seeds instead of the usual number
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/random_params.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

using Random = std::mt19937;

std::int64_t below(Random& random, std::int64_t count) {
  return count <= 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
}

// A pattern is a size and some of these, one over the other.
enum class Part {
  diagonal,
  block,
  full_row,
  full_column,
  scatter,
  jumps,
  repeated,
  corner,
  equal_rows,
  count
};

void add(Part part, std::int64_t rows, std::int64_t cols, Random& random,
         std::vector<Triplet<double>>& list) {
  const auto put = [&](std::int64_t r, std::int64_t c) {
    if (r >= 0 && r < rows && c >= 0 && c < cols)
      list.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c), 1.0});
  };
  const std::int64_t r0 = below(random, rows), c0 = below(random, cols);
  switch (part) {
    case Part::diagonal:
      for (std::int64_t offset = below(random, 7) - 3, r = 0; r < rows; ++r) put(r, r + offset);
      break;
    case Part::block:
      for (std::int64_t r = 0, height = 1 + below(random, 9), width = 1 + below(random, 9); r < height; ++r)
        for (std::int64_t c = 0; c < width; ++c) put(r0 + r, c0 + c);
      break;
    case Part::full_row:
      for (std::int64_t c = 0; c < cols; ++c) put(r0, c);
      break;
    case Part::full_column:
      for (std::int64_t r = 0; r < rows; ++r) put(r, c0);
      break;
    case Part::scatter:
      for (std::int64_t left = below(random, 2 * (rows + cols)); left > 0; --left)
        put(below(random, rows), below(random, cols));
      break;
    case Part::jumps:  // from one end of a row to the other
      for (std::int64_t r = r0; r < std::min(rows, r0 + 5); ++r) put(r, 0), put(r, cols - 1);
      break;
    case Part::repeated:
      for (std::int64_t left = below(random, 6); left >= 0; --left) put(r0, c0);
      break;
    case Part::corner:
      put(rows - 1, cols - 1), put(0, cols - 1), put(rows - 1, 0);
      break;
    case Part::equal_rows:
      for (std::int64_t left = 1 + below(random, 6), c = c0; left > 0; --left, c = below(random, cols))
        for (std::int64_t r = 0; r < rows; ++r) put(r, c);
      break;
    case Part::count:
      break;
  }
}

CsrMatrix<double> random_pattern(Random& random, bool square) {
  const auto length = [&] {
    switch (random() % 8) {
      case 0:
        return below(random, 3);
      case 1:
        return 60 + below(random, 10);
      case 2:
        return std::int64_t{200};
      default:
        return 1 + below(random, 40);
    }
  };
  const std::int64_t rows = length();
  std::int64_t cols = square ? rows : length();
  if (!square && random() % 16 == 0) cols = 100000;
  std::vector<Triplet<double>> list;
  for (std::int64_t parts = below(random, 5); parts > 0; --parts)
    add(static_cast<Part>(random() % static_cast<unsigned>(Part::count)), rows, cols, random, list);
  CsrMatrix<double> pattern = csr_from_triplets<double>(test_context(), rows, cols, list);
  if (random() % 4 == 0 && cols <= 300) {
    const CsrMatrix<double> other = transpose(test_context(), pattern);
    EXPECT_TRUE(identical(pattern, transpose(test_context(), other)));
    return other;
  }
  return pattern;
}

enum class Law { eighths, one_value, magnitudes, subnormal, zeros, infinities, count };

// The entry (r, c) of generation g. The law is symmetric, so that a symmetric pattern makes a symmetric matrix.
template <class T>
T entry_of(Law law, std::int64_t r, std::int64_t c, unsigned g) {
  std::uint64_t hash = static_cast<std::uint64_t>(std::min(r, c)) * 0x9e3779b97f4a7c15u +
                       static_cast<std::uint64_t>(std::max(r, c)) * 0xbf58476d1ce4e5b9u +
                       g * 0x94d049bb133111ebu;
  hash ^= hash >> 29, hash *= 0xbf58476d1ce4e5b9u, hash ^= hash >> 32;
  const T eighth = static_cast<T>(static_cast<std::int64_t>(hash % 64) - 32) / T(8);
  const T sign = (hash & 64) != 0 ? T(-1) : T(1);
  switch (law) {
    case Law::one_value:
      return T(1.5) + static_cast<T>(g);
    case Law::magnitudes: {
      constexpr int most = std::numeric_limits<T>::max_exponent / 3;
      return sign * std::ldexp(T(1) + static_cast<T>(hash % 1000) / T(1000),
                               static_cast<int>((hash >> 16) % (2 * most)) - most);
    }
    case Law::subnormal:
      return sign * static_cast<T>(1 + hash % 5) * std::numeric_limits<T>::denorm_min();
    case Law::zeros:
      return hash % 3 == 0 ? sign * T(0) : eighth;
    case Law::infinities:
      return (hash >> 8) % 16 == 0 ? sign * std::numeric_limits<T>::infinity()
             : eighth == T(0)      ? T(1)
                                   : eighth;
    case Law::eighths:
    case Law::count:
      break;
  }
  return eighth;
}

template <class T>
CsrMatrix<T> in_precision(const CsrMatrix<double>& matrix) {
  if constexpr (sizeof(T) == 8)
    return matrix;
  else
    return convert_values<T>(test_context(), matrix);
}

template <class T>
CsrMatrix<T> with_law(const CsrMatrix<T>& pattern, Law law, unsigned g) {
  CsrMatrix<T> matrix = deep_copy(test_context(), pattern);
  for (std::int64_t r = 0; r < matrix.rows(); ++r)
    for (std::int64_t k = matrix.pattern.row_ptr[r]; k < matrix.pattern.row_ptr[r + 1]; ++k)
      const_cast<T*>(matrix.values)[k] = entry_of<T>(law, r, matrix.pattern.col[k], g);
  return matrix;
}

// The oracle's check, and what it does not know: rounding of subnormal products, and rows with infinite entries, whose
// result is not finite and which must not touch other rows.
template <class T>
testing::AssertionResult is_product(const CsrMatrix<T>& A, T alpha, const std::vector<T>& x, T beta,
                                    const std::vector<T>& y0, const std::vector<T>& y) {
  constexpr long double c = 2;
  const long double eps = std::numeric_limits<T>::epsilon(), tiny = std::numeric_limits<T>::denorm_min();
  for (std::int64_t r = 0; r < A.rows(); ++r) {
    const auto length = static_cast<long double>(A.pattern.row_length(r));
    long double sum = 0, magnitude = 0, largest = 0;
    bool infinite = false;
    for (std::int64_t k = A.pattern.row_ptr[r]; k < A.pattern.row_ptr[r + 1]; ++k) {
      infinite = infinite || std::isinf(A.values[k]);
      const long double product = static_cast<long double>(A.values[k]) * x[A.pattern.col[k]];
      sum += product, magnitude += std::fabs(product);
      largest = std::max(largest, std::fabs(static_cast<long double>(x[A.pattern.col[k]])));
    }
    if (infinite) {
      if (std::isfinite(y[r]))
        return testing::AssertionFailure() << "row " << r << " has an infinite entry, its result is " << y[r];
      continue;
    }
    sum *= alpha, magnitude *= std::fabs(static_cast<long double>(alpha));
    if (beta != T(0)) {
      sum += static_cast<long double>(beta) * y0[r];
      magnitude += std::fabs(static_cast<long double>(beta) * y0[r]);
    }
    const long double bound =
        c * (length + 2) *
        (eps * magnitude + tiny * (1 + std::fabs(static_cast<long double>(alpha))) * (1 + largest));
    const long double error = std::fabs(static_cast<long double>(y[r]) - sum);
    if (!(error <= bound))
      return testing::AssertionFailure()
             << "row " << r << " of length " << length << ": " << y[r] << " instead of "
             << static_cast<double>(sum) << ", error " << static_cast<double>(error) << " above the bound "
             << static_cast<double>(bound);
  }
  return testing::AssertionSuccess();
}

struct Way {
  const FormatEntry* format;
  const Kernel* kernel;
  Space space;
};

std::vector<Way> ways() {
  std::vector<Way> list;
  for (const FormatEntry* format : layouts())
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*format, space)) list.push_back({format, &kernel, space});
  return list;
}

class RandomMatrices : public testing::TestWithParam<Way> {
 protected:
  // How much memory a matrix may take: matrices that fill a hundred thousand columns would only take time.
  static constexpr std::size_t most_bytes = 4 << 20;

  template <class T>
  bool life(Random& random, const CsrMatrix<double>& shape, Law law, const FormatParams& params,
            const ContextPtr& context) {
    const FormatEntry& format = *GetParam().format;
    CsrMatrix<T> csr = with_law(in_precision<T>(shape), law, 0);
    std::unique_ptr<AssembledMatrix<T>> matrix;
    const auto build = [&](const CsrMatrix<T>& from) {
      try {
        matrix =
            make_matrix(format, placed(context, from), context, params, GetParam().kernel->name, most_bytes);
      } catch (const FormatRefused& refusal) {
        EXPECT_FALSE(refusal.reason().empty());
        return false;
      } catch (const OutOfMemory&) { return false; } catch (const BadArgument&) {
        return false;  // parameters that do not go together
      }
      return true;
    };
    if (!build(csr)) return false;
    const std::int64_t rows = csr.rows(), cols = csr.cols();
    const auto x = sample_vector<T>(cols, random()), y0 = sample_vector<T>(rows, random());
    const Placed<T> px(context, x);
    const std::vector<T> poison(y0.size(), std::numeric_limits<T>::quiet_NaN());
    for (int step = 0; step < 7; ++step) {
      switch (random() % 8) {
        case 0: {
          const T alpha = std::array{T(1), T(-0.75), T(2)}[random() % 3];
          Placed<T> y(context, y0);
          matrix->apply(alpha, px.read(), T(0.5), y.view());
          EXPECT_TRUE(is_product(csr, alpha, x, T(0.5), y0, y.fetch())) << "with beta";
          break;
        }
        case 1: {
          std::vector<T> expected(static_cast<std::size_t>(std::min(rows, cols)));
          extract_diagonal(*test_context(), csr, expected.data());
          Placed<T> found(context, std::vector<T>(expected.size(), std::numeric_limits<T>::quiet_NaN()));
          matrix->diagonal(found.view());
          EXPECT_EQ(expected, found.fetch());
          break;
        }
        case 2: {
          const MultiShape& layout = multi_shapes()[random() % multi_shapes().size()];
          const std::int64_t count = 1 + below(random, 9);
          const Columns<T> X = sample_columns<T>(cols, count, random());
          PlacedColumns<T> pX(context, X, cols, layout);
          PlacedColumns<T> pY(context, Columns<T>(static_cast<std::size_t>(count), poison), rows, layout);
          multi_apply<T>(*matrix, T(1), pX.read(), T(0), pY.view());
          const Columns<T> Y = pY.fetch();
          for (std::size_t j = 0; j < Y.size(); ++j)
            EXPECT_TRUE(is_product(csr, T(1), X[j], T(0), y0, Y[j])) << "column " << j << " of " << count;
          break;
        }
        case 3:
          csr = with_law(csr, law, static_cast<unsigned>(step) + 1);
          matrix->update_values(placed(context, csr));
          break;
        case 4: {
          const CsrMatrix<T> back = fetched(context, matrix->to_csr());
          if (format.traits.exact_values) { EXPECT_TRUE(identical(csr, back)); }
          EXPECT_TRUE(same_pattern(csr.pattern, back.pattern));
          // What came back makes the same matrix once more.
          EXPECT_TRUE(build(back)) << "refused what it gave itself";
          break;
        }
        case 5:
          if (rows == cols) {
            Placed<T> y(context, poison), dot(context, {std::numeric_limits<T>::quiet_NaN()});
            apply_dot<T>(*matrix, px.read(), y.view(), dot.data());
            EXPECT_TRUE(is_product(csr, T(1), x, T(0), y0, y.fetch())) << "apply_dot";
            break;
          }
          [[fallthrough]];
        case 6: {
          const auto z = sample_vector<T>(rows, random()), w0 = sample_vector<T>(cols, random());
          const T beta = random() % 2 ? T(0.5) : T(0);
          const Placed<T> pz(context, z);
          Placed<T> w(context,
                      beta == T(0) ? std::vector<T>(w0.size(), std::numeric_limits<T>::quiet_NaN()) : w0);
          apply_transposed<T>(*matrix, T(-0.75), pz.read(), beta, w.view());
          EXPECT_TRUE(is_product(transpose(test_context(), csr), T(-0.75), z, beta, w0, w.fetch()))
              << "transposed, beta " << beta;
          break;
        }
        default: {
          Placed<T> y(context, poison);
          matrix->apply(px.read(), y.view());
          EXPECT_TRUE(is_product(csr, T(1), x, T(0), y0, y.fetch()));
        }
      }
      if (HasFailure()) return true;
    }
    return true;
  }
};

TEST_P(RandomMatrices, AgreeWithCsr) {
  if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  if (!test_context(GetParam().space)) GTEST_SKIP() << no_device;
  const char* const chosen = std::getenv("PROTEAN_MATRICES_SEED");
  const char* const number = std::getenv("PROTEAN_MATRICES_COUNT");
  const unsigned first = chosen ? static_cast<unsigned>(std::atoi(chosen)) : 1;
  const unsigned count = number ? static_cast<unsigned>(std::atoi(number)) : chosen ? 1 : 40;
  const ContextPtr one = Context::host(1), three = Context::host(3);
  unsigned built = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Random random(seed);
    const bool square =
        GetParam().format->traits.square_only || GetParam().format->traits.symmetric_only || random() % 2;
    CsrMatrix<double> shape = random_pattern(random, square);
    if (GetParam().format->traits.symmetric_only) shape = symmetric_of(shape);
    const auto law = static_cast<Law>(random() % static_cast<unsigned>(Law::count));
    const FormatParams params = random_params(*GetParam().format, random);
    const bool single = random() % 3 == 0;
    const ContextPtr& context = GetParam().space == Space::device ? test_context(Space::device)
                                : random() % 8 == 0               ? three
                                                                  : one;
    std::string words = "seed " + std::to_string(seed) + ", " + std::to_string(shape.rows()) + " x " +
                        std::to_string(shape.cols()) + ", law " + std::to_string(static_cast<int>(law)) +
                        (single ? ", single precision" : ", double precision") + ", " +
                        std::to_string(context->threads()) + " threads,";
    for (const auto& [name, value] : params.all()) words += " " + name + "=" + value;
    SCOPED_TRACE(words);
    built += single ? life<float>(random, shape, law, params, context)
                    : life<double>(random, shape, law, params, context);
    if (HasFailure()) return;
  }
  // The library's blocks refuse most of them: 3 of 40 are built.
  if (!chosen && !number) { EXPECT_GT(built, count / 20) << "of " << count << " matrices"; }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, RandomMatrices, testing::ValuesIn(ways()), [](const auto& one) {
  std::string name(one.param.format->id);
  name += "__" + std::string(to_string(one.param.space)) + "_" + std::string(one.param.kernel->name);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace protean::test
