// Element matrices as an operator: every variant on every mesh against the definition, in both spaces.
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "core/error.hpp"
#include "count_new.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/elements.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Variant {
  ElementScatter scatter;
  bool symmetric;
  Space space;
};

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (const Space space : {Space::host, Space::device})
    for (const bool symmetric : {false, true})
      for (const auto scatter : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather})
        list.push_back({scatter, symmetric, space});
  return list;
}

template <class T>
std::vector<T> only(const std::vector<T>& all, std::span<const std::int32_t> chosen) {
  std::vector<T> some;
  for (const std::int32_t u : chosen) some.push_back(all[u]);
  return some;
}

class Elements : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!test_context(GetParam().space)) GTEST_SKIP() << no_device;
  }
  std::vector<ContextPtr> contexts() const {
    if (GetParam().space == Space::device) return {test_context(Space::device)};
    return {Context::host(1), Context::host(3)};
  }
  ContextPtr context() const { return test_context(GetParam().space); }
  ElementOptions options(const ElementMesh& mesh) const {
    ElementOptions o;
    o.scatter = GetParam().scatter, o.symmetric = GetParam().symmetric;
    o.components = mesh.components, o.allow_unused_nodes = mesh.unused;
    return o;
  }
  template <class T>
  void check_product(const ElementOperator<T>& A, const ElementReference<T>& reference, T alpha, T beta) {
    const auto n = static_cast<std::int64_t>(reference.rows.size());
    const auto x = sample_vector<T>(n, 1);
    auto y0 = sample_vector<T>(n, 2);
    const auto rows = A.free_unknowns();
    const bool reduced = !rows.empty();
    if (beta == T(0)) std::fill(y0.begin(), y0.end(), std::numeric_limits<T>::quiet_NaN());
    Placed<T> there_x(A.context(), reduced ? only(x, rows) : x),
        there_y(A.context(), reduced ? only(y0, rows) : y0);
    A.apply(alpha, there_x.read(), beta, there_y.view());
    EXPECT_TRUE(elements_are_right(reference, alpha, x, beta, y0, expanded(A, there_y.fetch(), y0, beta, x)));
    check_columns(A, reference, alpha, beta);
    check_transposed(A, reference, alpha, beta);
    if (beta != T(0) || alpha != T(1)) return;
    const auto y = there_y.fetch();
    // The dot product in the same pass.
    Placed<T> result(A.context(), std::vector<T>{T(-1)});
    Placed<T> again(A.context(), y0.size() == y.size() ? y0 : only(y0, rows));
    apply_dot<T>(A, there_x.read(), again.view(), result.data());
    EXPECT_TRUE(elements_are_right(reference, alpha, x, beta, y0, expanded(A, again.fetch(), y0, beta, x)));
    long double dot = 0, magnitude = 0;
    const auto xs = there_x.fetch();
    for (std::size_t i = 0; i < y.size(); ++i) dot += static_cast<long double>(xs[i]) * y[i];
    for (std::size_t r = 0; r < reference.rows.size(); ++r)
      for (const auto& term : reference.rows[r])
        magnitude += std::fabs(static_cast<long double>(x[r]) * term.value * x[term.col]);
    EXPECT_LE(std::fabs(static_cast<double>(dot - static_cast<long double>(result.fetch()[0]))),
              20 * std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<double>(n) + 20) *
                  static_cast<double>(magnitude));
    if (A.scatter() != ElementScatter::atomic) {
      Placed<T> third(A.context(), y);
      A.apply(T(1), there_x.read(), T(0), third.view());
      EXPECT_EQ(y, third.fetch()) << "the bits differ between runs";
    }
  }
  // A^T, whose terms are those of A with rows and columns exchanged.
  template <class T>
  void check_transposed(const ElementOperator<T>& A, const ElementReference<T>& reference, T alpha, T beta) {
    ElementReference<T> columns;
    columns.rows.resize(reference.rows.size());
    for (std::size_t r = 0; r < reference.rows.size(); ++r)
      for (const auto& term : reference.rows[r])
        columns.rows[term.col].push_back({static_cast<std::int32_t>(r), term.value});
    const auto n = static_cast<std::int64_t>(columns.rows.size());
    const auto x = sample_vector<T>(n, 3);
    auto y0 = sample_vector<T>(n, 4);
    const auto rows = A.free_unknowns();
    if (beta == T(0)) std::fill(y0.begin(), y0.end(), std::numeric_limits<T>::quiet_NaN());
    Placed<T> there_x(A.context(), rows.empty() ? x : only(x, rows)),
        there_y(A.context(), rows.empty() ? y0 : only(y0, rows));
    apply_transposed<T>(A, alpha, there_x.read(), beta, there_y.view());
    EXPECT_TRUE(elements_are_right(columns, alpha, x, beta, y0, expanded(A, there_y.fetch(), y0, beta, x)))
        << "transposed";
    EXPECT_EQ(A.transposed_bytes(), 0u);
  }
  // The same for several vectors: a group of four and one that is left over.
  template <class T>
  void check_columns(const ElementOperator<T>& A, const ElementReference<T>& reference, T alpha, T beta) {
    const auto n = static_cast<std::int64_t>(reference.rows.size());
    const auto rows = A.free_unknowns();
    const auto chosen = [&](const Columns<T>& all) {
      Columns<T> some;
      for (const auto& column : all) some.push_back(rows.empty() ? column : only(column, rows));
      return some;
    };
    const auto x = sample_columns<T>(n, 5, 1);
    auto y0 = sample_columns<T>(n, 5, 2);
    if (beta == T(0))
      for (auto& column : y0) std::fill(column.begin(), column.end(), std::numeric_limits<T>::quiet_NaN());
    EXPECT_EQ(column_by_column<T>(A).empty(), A.scatter() != ElementScatter::gather);
    for (const MultiShape& shape : {multi_shapes()[1], multi_shapes()[3]}) {
      PlacedColumns<T> X(A.context(), chosen(x), A.rows(), shape),
          Y(A.context(), chosen(y0), A.rows(), shape);
      multi_apply<T>(A, alpha, X.read(), beta, Y.view());
      const Columns<T> y = Y.fetch();
      for (std::size_t j = 0; j < y.size(); ++j)
        EXPECT_TRUE(
            elements_are_right(reference, alpha, x[j], beta, y0[j], expanded(A, y[j], y0[j], beta, x[j])))
            << "vector " << j << ", " << shape.name();
      EXPECT_TRUE(Y.gaps_are_untouched());
    }
  }
  // Eliminated rows are compared as rows of the identity.
  template <class T>
  static std::vector<T> expanded(const ElementOperator<T>& A, const std::vector<T>& y,
                                 const std::vector<T>& y0, T beta, const std::vector<T>& x, T alpha = T(1)) {
    const auto rows = A.free_unknowns();
    if (rows.empty() && y.size() == x.size()) return y;
    std::vector<T> all(x.size());
    for (std::size_t u = 0; u < all.size(); ++u) all[u] = alpha * x[u] + (beta == T(0) ? T(0) : beta * y0[u]);
    for (std::size_t i = 0; i < rows.size(); ++i) all[rows[i]] = y[i];
    return all;
  }
};

template <class T>
void all_products(const Variant&, const auto& check, const ContextPtr& context, ElementOptions options,
                  const ElementMesh& mesh) {
  SCOPED_TRACE(mesh.name + " (" + mesh.exposes + "), threads " + std::to_string(context->threads()));
  const auto numbers = element_numbers<T>(mesh, options.symmetric);
  const auto A = make_element_operator<T>(context, mesh.nodes, numbers.groups, options);
  const auto reference = element_reference<T>(mesh, numbers, {}, false);
  ASSERT_EQ(A->rows(), static_cast<std::int64_t>(reference.rows.size()));
  check(*A, reference, T(1), T(0));
  check(*A, reference, T(-0.5), T(2));
  check(*A, reference, T(2), T(0));
  check(*A, reference, T(1), T(1));
}

TEST_P(Elements, ProductIsTheSumOverElements) {
  auto list = contexts();
  if (GetParam().space == Space::host) list.push_back(test_context());
  for (const ContextPtr& c : list)
    for (const ElementMesh& mesh : element_meshes()) {
      all_products<double>(
          GetParam(), [&](auto&&... a) { check_product<double>(a...); }, c, options(mesh), mesh);
      all_products<float>(
          GetParam(), [&](auto&&... a) { check_product<float>(a...); }, c, options(mesh), mesh);
    }
}

// One size of element at a time, in groups of three elements and of one more than a batch of a device holds.
// The size determines how rows are divided into blocks and which warp computes which block.
TEST_P(Elements, EverySizeIsCutRight) {
  const auto check = [&]<class T>(T, int size, int elements) {
    ElementMesh mesh{"size " + std::to_string(size), "", size + 2, {{size, {}}}};
    auto& nodes = mesh.groups[0].connectivity;
    for (int e = 0; e < elements; ++e)
      for (int a = 0; a < size; ++a) nodes.push_back(((e % 2 == 0 ? a : size - 1 - a) + e) % (size + 2));
    SCOPED_TRACE(mesh.name);
    const auto numbers = element_numbers<T>(mesh, GetParam().symmetric);
    const auto A = make_element_operator<T>(context(), mesh.nodes, numbers.groups, options(mesh));
    check_product<T>(*A, element_reference<T>(mesh, numbers, {}, false), 1, 0);
  };
  for (int size = 1; size <= 129; size += size < 67 ? 2 : 6) check(1.0, size, 3);
  for (const int size : {8, 16, 32, 64, 128, 130, 261}) check(1.0, size, 3), check(1.0f, size, 3);
  for (const int size : {9, 24, 40}) check(1.0, size, 33), check(1.0f, size, 33);
  check(1.0, 125, 33);
}

TEST_P(Elements, ConstrainedUnknownsAreKeptOrEliminated) {
  for (const ContextPtr& c : contexts())
    for (const ElementMesh& mesh : element_meshes()) {
      SCOPED_TRACE(mesh.name);
      const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
      const auto constrained = some_unknowns(mesh);
      const auto reference = element_reference<double>(mesh, numbers, constrained, false);
      ElementOptions o = options(mesh);
      o.constrained = constrained;
      const auto kept = make_element_operator<double>(c, mesh.nodes, numbers.groups, o);
      ASSERT_EQ(kept->rows(), mesh.nodes * mesh.components);
      check_product<double>(*kept, reference, 1, 0);
      check_product<double>(*kept, reference, -0.5, 2);
      o.constrained_rows = ConstrainedRows::eliminate;
      const auto reduced = make_element_operator<double>(c, mesh.nodes, numbers.groups, o);
      ASSERT_EQ(reduced->rows(),
                mesh.nodes * mesh.components - static_cast<std::int64_t>(constrained.size()));
      if (reduced->rows() == 0) continue;
      ASSERT_EQ(reduced->rows(), static_cast<std::int64_t>(reduced->free_unknowns().size()));
      check_product<double>(*reduced, reference, 1, 0);
    }
}

TEST_P(Elements, NotFiniteValuesAtConstrainedUnknownsStayThere) {
  const ElementMesh& mesh = element_mesh("cubes_2");
  const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
  const auto constrained = some_unknowns(mesh);
  ElementOptions o = options(mesh);
  o.constrained = constrained;
  const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, o);
  auto x = sample_vector<double>(mesh.nodes, 3);
  for (const std::int64_t u : constrained) x[u] = std::numeric_limits<double>::infinity();
  Placed<double> there_x(context(), x), there_y(context(), x);
  A->apply(there_x.read(), there_y.view());
  const auto y = there_y.fetch();
  std::int64_t infinite = 0;
  for (const double value : y) infinite += std::isfinite(value) ? 0 : 1;
  EXPECT_EQ(infinite, static_cast<std::int64_t>(constrained.size()));
}

TEST_P(Elements, AssembledIsTheSumInTheOrderOfTheElements) {
  std::map<std::string, CsrMatrix<double>> first;
  for (const ContextPtr& c : contexts())
    for (const ElementMesh& mesh : element_meshes())
      for (const bool constrain : {false, true}) {
        SCOPED_TRACE(mesh.name);
        const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
        ElementOptions o = options(mesh);
        const auto constrained = constrain ? some_unknowns(mesh) : std::vector<std::int64_t>();
        o.constrained = constrained;
        const auto A = make_element_operator<double>(c, mesh.nodes, numbers.groups, o);
        const auto found = fetched(c, A->assemble());
        const auto reference = element_reference<double>(mesh, numbers, constrained, false);
        // Triplets of the same entry are added in the given order.
        const auto expected = csr_from_triplets<double>(
            test_context(), A->rows(), A->rows(), std::span<const Triplet<double>>(reference.triplets()));
        ASSERT_NO_THROW(validate_sorted(*test_context(), found.pattern));
        EXPECT_TRUE(identical(expected, found));
        if (A->rows() == 0) continue;
        std::vector<double> diagonal(static_cast<std::size_t>(A->rows()));
        extract_diagonal(*test_context(), expected, diagonal.data());
        Placed<double> there(c, std::vector<double>(diagonal.size(), -1e300));
        A->diagonal(there.view());
        EXPECT_EQ(diagonal, there.fetch());
      }
}

TEST_P(Elements, EliminatedRowsAreLeftOutOfTheAssembledMatrix) {
  for (const char* name : {"cubes_1", "mixed_vector"}) {
    const ElementMesh& mesh = element_mesh(name);
    const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
    const auto constrained = some_unknowns(mesh);
    ElementOptions o = options(mesh);
    o.constrained = constrained, o.constrained_rows = ConstrainedRows::eliminate;
    const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, o);
    const auto reference = element_reference<double>(mesh, numbers, constrained, false);
    std::vector<std::int32_t> place(reference.rows.size(), -1);
    for (std::size_t i = 0; i < A->free_unknowns().size(); ++i)
      place[A->free_unknowns()[i]] = static_cast<std::int32_t>(i);
    std::vector<Triplet<double>> triplets;
    for (const auto& t : reference.triplets())
      if (place[t.row] >= 0) triplets.push_back({place[t.row], place[t.col], t.value});
    EXPECT_TRUE(identical(csr_from_triplets<double>(test_context(), A->rows(), A->rows(),
                                                    std::span<const Triplet<double>>(triplets)),
                          fetched(context(), A->assemble())));
  }
}

TEST_P(Elements, NewValuesForTheSameElements) {
  for (const char* name : {"cubes_2", "mixed", "chain"}) {
    const ElementMesh& mesh = element_mesh(name);
    const auto numbers = element_numbers<double>(mesh, GetParam().symmetric, 1);
    auto changed = element_numbers<double>(mesh, GetParam().symmetric, 2);
    const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, options(mesh));
    const Revision before = A->revision();
    for (auto& group : changed.groups) group.connectivity = {};
    A->update_values(changed.groups);
    EXPECT_NE(A->revision(), before);
    EXPECT_EQ(A->revision().pattern, before.pattern);
    check_product<double>(*A, element_reference<double>(mesh, changed, {}, false), 1, 0);
  }
}

TEST_P(Elements, NewValuesThatDoNotFitChangeNothing) {
  const ElementMesh& mesh = element_mesh("mixed");
  const auto numbers = element_numbers<double>(mesh, GetParam().symmetric, 1);
  auto changed = element_numbers<double>(mesh, GetParam().symmetric, 2);
  const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, options(mesh));
  changed.matrices.back().back() = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(A->update_values(changed.groups), BadMatrix);
  auto fewer = numbers.groups;
  fewer.pop_back();
  EXPECT_THROW(A->update_values(fewer), ShapeMismatch);
  fewer = numbers.groups;
  fewer[0].matrices = fewer[0].matrices.first(fewer[0].matrices.size() - 1);
  EXPECT_THROW(A->update_values(fewer), ShapeMismatch);
  // The same elements in another order, of which all sizes are right.
  for (std::size_t g = 0; g < numbers.groups.size(); ++g) {
    auto other = numbers.groups;
    if (other[g].elements < 2) continue;
    std::vector<std::int32_t> turned(other[g].connectivity.begin(), other[g].connectivity.end());
    std::rotate(turned.begin(), turned.begin() + other[g].nodes, turned.end());
    other[g].connectivity = turned;
    EXPECT_THROW(A->update_values(other), ShapeMismatch) << "group " << g;
  }
  EXPECT_EQ(A->revision(), Revision());
  check_product<double>(*A, element_reference<double>(mesh, numbers, {}, false), 1, 0);
}

TEST_P(Elements, NoTwoElementsOfAColourShareANodeOutsideABatch) {
  for (const ContextPtr& c : contexts())
    for (const ElementMesh& mesh : element_meshes()) {
      SCOPED_TRACE(mesh.name);
      const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
      const auto A = make_element_operator<double>(c, mesh.nodes, numbers.groups, options(mesh));
      const auto colours = A->colours();
      if (GetParam().scatter != ElementScatter::coloured) {
        EXPECT_TRUE(colours.empty());
        continue;
      }
      ASSERT_EQ(static_cast<std::int64_t>(colours.size()), A->elements());
      // The batch of each (colour, node).
      std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> holder;
      std::set<std::int32_t> used;
      std::size_t element = 0;
      for (const auto& group : mesh.groups)
        for (std::int64_t e = 0; e < group.elements(); ++e, ++element) {
          used.insert(colours[element].colour);
          for (int a = 0; a < group.nodes; ++a) {
            const auto key = std::pair(colours[element].colour, group.connectivity[e * group.nodes + a]);
            const auto [at, fresh] = holder.emplace(key, colours[element].batch);
            EXPECT_TRUE(fresh || (GetParam().space == Space::host && at->second == colours[element].batch))
                << "element " << element << ", node " << key.second;
          }
        }
      if (!used.empty()) {
        EXPECT_EQ(*used.begin(), 0);
        EXPECT_EQ(*used.rbegin() + 1, static_cast<std::int32_t>(used.size()));
      }
      if (mesh.name == "cubes_1") { EXPECT_LE(used.size(), 20u); }
    }
}

TEST_P(Elements, SeveralCallersAtOnce) {
  if (GetParam().space == Space::device) GTEST_SKIP() << "a device context is for one thread at a time";
  for (const char* name : {"cubes_2", "random"}) {
    const ElementMesh& mesh = element_mesh(name);
    const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
    const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, options(mesh));
    const auto reference = element_reference<double>(mesh, numbers, {}, false);
    std::atomic<int> wrong{0};
    std::barrier together(2);
    const auto caller = [&](unsigned seed) {
      const auto x = sample_vector<double>(mesh.nodes, seed);
      std::vector<std::vector<double>> y(20, std::vector<double>(x.size()));
      for (int round = 0; round < 20; ++round) {
        together.arrive_and_wait();
        for (auto& product : y)
          A->apply(VectorView<const double>{x.data(), mesh.nodes}, {product.data(), mesh.nodes});
        for (const auto& product : y) wrong += !elements_are_right(reference, 1.0, x, 0.0, product, product);
      }
    };
    std::thread other(caller, 7);
    caller(8);
    other.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST_P(Elements, AProductAndNewValuesTakeNoMemory) {
  if (GetParam().space == Space::device) GTEST_SKIP() << "counted on the host";
  for (const char* name : {"cubes_2", "random", "mixed", "fan_large"}) {
    const ElementMesh& mesh = element_mesh(name);
    const auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
    const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, options(mesh));
    const auto x = sample_vector<double>(A->rows(), 1);
    std::vector<double> y(x.size());
    double dot = 0;
    const VectorView<const double> from{x.data(), A->rows()};
    const VectorView<double> to{y.data(), A->rows()};
    A->apply(from, to);
    const std::size_t buffers = allocated_bytes();
    const std::int64_t news = count_of_new();
    A->apply(from, to);
    A->apply(2.0, from, 0.5, to);
    apply_dot<double>(*A, from, to, &dot);
    A->update_values(numbers.groups);
    EXPECT_EQ(count_of_new() - news, 0);
    EXPECT_EQ(allocated_bytes(), buffers);
  }
}

TEST_P(Elements, BadInputIsNamed) {
  ElementMesh mesh = element_mesh("cubes_1");
  auto numbers = element_numbers<double>(mesh, true);
  const ElementOptions good = options(mesh);
  const auto make = [&](const ElementOptions& o) {
    return make_element_operator<double>(context(), mesh.nodes, numbers.groups, o);
  };
  const auto message = [&](const ElementOptions& o) {
    try {
      (void)make(o);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  EXPECT_NO_THROW((void)make(good));
  auto& node = mesh.groups[0].connectivity;
  const std::int32_t old = node[8 * 200 + 3];
  node[8 * 200 + 3] = 512;
  EXPECT_THROW((void)make(good), BadMatrix);
  EXPECT_NE(message(good).find("group 0, element 200: its node 3 is 512, outside 0..511"), std::string::npos)
      << message(good);
  node[8 * 200 + 3] = -1;
  EXPECT_THROW((void)make(good), BadMatrix);
  node[8 * 200 + 3] = node[8 * 200 + 6];
  EXPECT_THROW((void)make(good), BadMatrix);
  EXPECT_NE(message(good).find("occurs twice"), std::string::npos) << message(good);
  node[8 * 200 + 3] = old;
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    double& entry = numbers.matrices[0][64 * 341 + 8 * 2 + 5];
    const double was = entry;
    entry = bad;
    EXPECT_THROW((void)make(good), BadMatrix);
    EXPECT_NE(message(good).find("group 0, element 341: entry (2, 5)"), std::string::npos) << message(good);
    entry = was;
  }
  {
    double& entry = numbers.matrices[0][64 * 17 + 8 * 2 + 5];
    const double was = entry;
    entry += 1e-3;
    if (GetParam().symmetric) {
      EXPECT_THROW((void)make(good), BadMatrix);
      EXPECT_NE(message(good).find("element 17: entry (5, 2)"), std::string::npos) << message(good);
      entry = was * (1 + 1e-15);  // round-off is no asymmetry
    }
    EXPECT_NO_THROW((void)make(good));
    entry = was;
  }
  if (GetParam().symmetric) {
    // 100 units of round-off of the largest entry are allowed, 101 are not.
    double* const k = numbers.matrices[0].data() + 64 * 17;
    const std::vector<double> were(k, k + 64);
    constexpr double unit = std::numeric_limits<double>::epsilon();
    std::fill(k, k + 64, 0.0);
    for (int i = 0; i < 8; ++i) k[9 * i] = 1;
    k[8 * 2 + 5] = 0.5, k[8 * 5 + 2] = 0.5 + 100 * unit;
    EXPECT_NO_THROW((void)make(good));
    k[8 * 5 + 2] = 0.5 + 100.5 * unit;
    EXPECT_THROW((void)make(good), BadMatrix);
    std::copy(were.begin(), were.end(), k);
  }
  ElementOptions o = good;
  mesh.nodes = 514;
  EXPECT_THROW((void)make(o), BadMatrix);
  EXPECT_NE(message(o).find("2 of 514 nodes belong to no element (the first is node 512)"), std::string::npos)
      << message(o);
  o.allow_unused_nodes = true;
  EXPECT_NO_THROW((void)make(o));
  o = good;
  const std::vector<std::int64_t> last = {512, 513}, twice = {3, 4, 3}, outside = {514}, negative = {-1};
  o.constrained = last;
  EXPECT_NO_THROW((void)make(o));
  mesh.nodes = 512;
  for (const auto* bad : {&twice, &outside, &negative}) {
    o.constrained = *bad;
    EXPECT_THROW((void)make(o), BadArgument);
  }
  o = good;
  for (const int components : {0, -1, 2000, 129}) {
    o.components = components;
    EXPECT_THROW((void)make(o), BadArgument) << components;
  }
  o.components = 2;
  EXPECT_THROW((void)make(o), ShapeMismatch);
  numbers.groups[0].elements = 342;
  EXPECT_THROW((void)make(good), ShapeMismatch);
  numbers.groups[0].elements = -1;
  EXPECT_THROW((void)make(good), BadArgument);
  mesh.nodes = -1;
  EXPECT_THROW((void)make(good), BadArgument);
}

// One bar between nodes 0 and 1, in a plane; node 2 belongs to nothing.
TEST_P(Elements, ANodeOfNoElementMustBeConstrainedInAllItsComponents) {
  const std::vector<std::int32_t> nodes = {0, 1};
  std::vector<double> stiffness(16, 0.0);
  for (std::size_t i = 0; i < 4; ++i) stiffness[5 * i] = 2;
  const std::vector<ElementGroup<double>> groups = {{1, 2, nodes, stiffness}};
  ElementOptions o;
  o.scatter = GetParam().scatter, o.symmetric = GetParam().symmetric, o.components = 2;
  for (const auto& constrained : std::vector<std::vector<std::int64_t>>{{}, {4}, {5}, {0, 1, 5}}) {
    o.constrained = constrained;
    try {
      (void)make_element_operator<double>(context(), 3, groups, o);
      ADD_FAILURE() << constrained.size() << " constrained unknowns";
    } catch (const BadMatrix& error) {
      EXPECT_NE(std::string(error.what()).find("1 of 3 nodes belong to no element (the first is node 2)"),
                std::string::npos)
          << error.what();
    }
  }
  const std::vector<std::int64_t> both = {4, 5};
  o.constrained = both;
  EXPECT_NO_THROW((void)make_element_operator<double>(context(), 3, groups, o));
}

TEST_P(Elements, ArraysInDeviceMemoryAreTakenThere) {
  if (GetParam().space == Space::host)
    GTEST_SKIP() << "no device in this case: the operator is one of the host";
  for (const char* name : {"cubes_2", "mixed"}) {
    const ElementMesh& mesh = element_mesh(name);
    auto numbers = element_numbers<double>(mesh, GetParam().symmetric);
    std::vector<Placed<double>> matrices;
    std::vector<Buffer<std::int32_t>> nodes;
    for (std::size_t g = 0; g < numbers.groups.size(); ++g) {
      auto& group = numbers.groups[g];
      matrices.emplace_back(context(), numbers.matrices[g]);
      group.matrices = {matrices.back().data(), group.matrices.size()};
      // Integers are copied as values of a vector; the library has no other public copy.
      nodes.emplace_back(context(), static_cast<std::int64_t>(group.connectivity.size()));
      std::vector<float> bits(group.connectivity.size());
      std::memcpy(bits.data(), group.connectivity.data(), bits.size() * 4);
      copy<float>(*context(), {bits.data(), static_cast<std::int64_t>(bits.size())},
                  {reinterpret_cast<float*>(nodes.back().data()), nodes.back().size(), Space::device});
      group.connectivity = {nodes.back().data(), bits.size()};
      group.space = Space::device;
    }
    const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, options(mesh));
    check_product<double>(*A, element_reference<double>(mesh, numbers, {}, false), 1, 0);
    A->update_values(numbers.groups);
    check_product<double>(*A, element_reference<double>(mesh, numbers, {}, false), 1, 0);
  }
}

TEST_P(Elements, CgSolvesOnThem) {
  const ElementMesh& mesh = element_mesh("cubes_2");
  const auto numbers = element_numbers<double>(mesh, true);
  const auto constrained = some_unknowns(mesh);
  ElementOptions o = options(mesh);
  o.constrained = constrained;
  const auto A = make_element_operator<double>(context(), mesh.nodes, numbers.groups, o);
  const auto M = make_preconditioner<double>("jacobi", *A);
  M->ensure(*A);
  const auto cg = make_solver<double>("cg");
  const auto exact = sample_vector<double>(mesh.nodes, 5);
  Placed<double> there(context(), exact), b(context(), exact),
      x(context(), std::vector<double>(exact.size(), 0));
  A->apply(there.read(), b.view());
  const auto report = cg->solve(*A, b.read(), x.view(), M.get());
  EXPECT_TRUE(report.converged()) << to_string(report.reason);
  const auto found = x.fetch();
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(found[i], exact[i], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, Elements, testing::ValuesIn(variants()), [](const auto& instance) {
  return std::string(to_string(instance.param.scatter)) + (instance.param.symmetric ? "_half" : "_full") +
         "_" + std::string(to_string(instance.param.space));
});

// The other promises of the header.
TEST(ElementOperators, HalfOfASymmetricStoreIsHalf) {
  const ElementMesh& mesh = element_mesh("cubes_4");
  const auto numbers = element_numbers<double>(mesh, true);
  ElementOptions o;
  const auto full = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, o);
  o.symmetric = true;
  const auto half = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, o);
  EXPECT_EQ(full->bytes() - half->bytes(), std::size_t{8} * 8 * (125 * 125 - 125 * 126 / 2));
  EXPECT_EQ(full->entries(), 8 * 125 * 125);
  EXPECT_EQ(full->name(), "lma-gather");
}

TEST(ElementOperators, AutomaticIsNamed) {
  const auto name = [](const char* mesh_name, int threads) {
    const ElementMesh& mesh = element_mesh(mesh_name);
    const auto numbers = element_numbers<double>(mesh, true);
    return std::string(
        make_element_operator<double>(Context::host(threads), mesh.nodes, numbers.groups)->name());
  };
  EXPECT_EQ(name("cubes_1", 1), "lma-atomic");
  EXPECT_EQ(name("cubes_1", 2), "lma-coloured");
  EXPECT_EQ(name("cubes_2", 2), "lma-gather");
}

TEST(ElementOperators, TheSameBitsForAnyNumberOfThreads) {
  for (const auto scatter : {ElementScatter::gather, ElementScatter::coloured})
    for (const char* name : {"random", "cubes_2", "mixed"}) {
      const ElementMesh& mesh = element_mesh(name);
      const auto numbers = element_numbers<double>(mesh, true);
      const auto x = sample_vector<double>(mesh.nodes, 1);
      std::vector<double> first;
      for (const int threads : {1, 2, 3, 7}) {
        ElementOptions o;
        o.scatter = scatter, o.symmetric = true;
        const auto A = make_element_operator<double>(Context::host(threads), mesh.nodes, numbers.groups, o);
        std::vector<double> y(x.size());
        A->apply(VectorView<const double>{x.data(), mesh.nodes}, {y.data(), mesh.nodes});
        if (first.empty()) first = y;
        EXPECT_EQ(first, y) << name << ", threads " << threads;
      }
    }
}

TEST(ElementOperators, DeviceArraysAreRefusedByAHostOperator) {
  const ElementMesh& mesh = element_mesh("cubes_1");
  auto numbers = element_numbers<double>(mesh, true);
  numbers.groups[0].space = Space::device;
  EXPECT_THROW((void)make_element_operator<double>(test_context(), mesh.nodes, numbers.groups), WrongSpace);
}

}  // namespace
}  // namespace protean::test
