// Element matrices as an operator: every variant on every mesh against the definition, in both spaces.
#include <atomic>
#include <barrier>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "core/identical.hpp"
#include "count_new.hpp"
#include "element_variants.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/elements.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (const Space space : {Space::host, Space::device})
    for (const bool symmetric : {false, true})
      for (const auto scatter : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather})
        list.push_back({scatter, symmetric, space});
  return list;
}

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

}  // namespace
}  // namespace protean::test
