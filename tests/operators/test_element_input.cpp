// What element operators refuse, and arrays in the memory of a device.
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "count_new.hpp"
#include "element_variants.hpp"
#include "gtest/gtest.h"
#include "support/elements.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

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

TEST_P(Elements, BadInputIsNamed) {
  ElementMesh mesh = element_mesh("cubes_1");
  auto numbers = element_numbers<double>(mesh, true);
  const ElementOptions good = options(mesh);
  const auto make = [&](const ElementOptions& o) {
    return make_element_operator<double>(context(), mesh.nodes, numbers.groups, o);
  };
  const auto message = [&](const ElementOptions& o) { return message_of([&] { (void)make(o); }); };
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

TEST(ElementOperators, DeviceArraysAreRefusedByAHostOperator) {
  const ElementMesh& mesh = element_mesh("cubes_1");
  auto numbers = element_numbers<double>(mesh, true);
  numbers.groups[0].space = Space::device;
  EXPECT_THROW((void)make_element_operator<double>(test_context(), mesh.nodes, numbers.groups), WrongSpace);
}

}  // namespace
}  // namespace protean::test
