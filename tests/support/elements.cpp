#include "support/elements.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

namespace protean::test {
namespace {

using Group = ElementMesh::Group;

// n x n x n cubes with (p + 1)^3 nodes each.
Group cubes(int n, int p, std::int32_t first = 0) {
  Group group{(p + 1) * (p + 1) * (p + 1), {}};
  const int line = n * p + 1;
  for (int z = 0; z < n; ++z)
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x)
        for (int c = 0; c <= p; ++c)
          for (int b = 0; b <= p; ++b)
            for (int a = 0; a <= p; ++a)
              group.connectivity.push_back(first + ((z * p + c) * line + y * p + b) * line + x * p + a);
  return group;
}

// Elements of `size` nodes out of `nodes`, each node in one at least.
Group random_elements(std::int32_t nodes, int size, int count, unsigned seed) {
  Group group{size, {}};
  std::mt19937 random(seed);
  std::vector<std::int32_t> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  std::int32_t next = 0;
  for (int e = 0; e < count; ++e) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::int32_t> chosen(order.begin(), order.begin() + size);
    // One node after another, so that none is left out.
    if (std::find(chosen.begin(), chosen.end(), next) == chosen.end()) chosen[e % size] = next;
    next = (next + 1) % nodes;
    group.connectivity.insert(group.connectivity.end(), chosen.begin(), chosen.end());
  }
  return group;
}

Group chain(std::int32_t nodes) {
  Group group{2, {}};
  for (std::int32_t k = 0; k + 1 < nodes; ++k)
    group.connectivity.insert(group.connectivity.end(), {k, k + 1});
  return group;
}

// `count` elements of three nodes around node 0.
Group fan(std::int32_t count) {
  Group group{3, {}};
  for (std::int32_t k = 1; k <= count; ++k)
    group.connectivity.insert(group.connectivity.end(), {k, 0, k % count + 1});
  return group;
}

std::vector<ElementMesh> build() {
  std::vector<ElementMesh> list;
  const auto add = [&](std::string name, std::string exposes, std::int64_t nodes, std::vector<Group> groups,
                       int components = 1, bool unused = false) {
    list.push_back({std::move(name), std::move(exposes), nodes, std::move(groups), components, unused});
  };
  add("nothing", "arrays of length 0 are dereferenced", 0, {});
  add("no_elements", "rows of no element are not written", 5, {{4, {}}}, 1, true);
  add("one_of_one", "m = 1, one lane in use", 1, {{1, {0}}});
  add("one_of_five", "one element, last lanes unused", 5, {{5, {3, 1, 4, 0, 2}}});
  add("points", "m = 1 in full batches and one more", 33, {random_elements(33, 1, 33, 1)});
  add("points_on_points", "m = 1, several a node", 9, {random_elements(9, 1, 100, 2)});
  add("chain", "the last, incomplete batch; colours of neighbours", 1003, {chain(1003)});
  add("fan", "one node of every element: as many colours as batches", 300, {fan(299)});
  add("fan_large", "the same with more than 64 colours", 1500, {fan(1499)});
  {
    Group same{6, {}};
    for (int e = 0; e < 50; ++e)
      for (int a = 0; a < 6; ++a) same.connectivity.push_back((a + e) % 6);
    add("all_on_the_same", "all elements share all nodes", 6, {same});
  }
  add("cubes_1", "the everyday case", 512, {cubes(7, 1)});
  add("cubes_2", "quadratic elements", 729, {cubes(4, 2)});
  add("cubes_4", "m = 125", 729, {cubes(2, 4)});
  add("cubes_1_vector", "three unknowns a node", 512, {cubes(7, 1)}, 3);
  add("cubes_4_vector", "m = 375", 125, {cubes(1, 4)}, 3);
  add("mixed", "groups of different sizes, an empty one", 512,
      {cubes(7, 1),
       random_elements(512, 4, 77, 3),
       {5, {}},
       random_elements(512, 1, 9, 4),
       random_elements(512, 20, 13, 5)});
  add("mixed_vector", "the same with two unknowns a node", 300,
      {random_elements(300, 10, 300, 6), random_elements(300, 3, 101, 7)}, 2);
  add("mixed_large",
      "elements of very different sizes in turn, small ones worked on by as many as large ones", 190,
      {random_elements(190, 8, 40, 10), random_elements(190, 125, 3, 11), random_elements(190, 27, 33, 12),
       random_elements(190, 1, 5, 13), random_elements(190, 64, 2, 14)});
  add("random", "nodes far apart, every thread's elements share nodes", 2000,
      {random_elements(2000, 8, 2000, 8)});
  add("gaps", "nodes that no element has", 100, {random_elements(60, 4, 90, 9)}, 1, true);
  return list;
}

}  // namespace

const std::vector<ElementMesh>& element_meshes() {
  static const std::vector<ElementMesh> list = build();
  return list;
}

const ElementMesh& element_mesh(const std::string& name) {
  for (const ElementMesh& mesh : element_meshes())
    if (mesh.name == name) return mesh;
  throw std::invalid_argument("no element mesh " + name);
}

template <class T>
ElementNumbers<T> element_numbers(const ElementMesh& mesh, bool symmetric, unsigned seed) {
  ElementNumbers<T> numbers;
  std::mt19937 random(seed);
  for (const auto& group : mesh.groups) {
    const int m = group.nodes * mesh.components;
    std::vector<T> all(static_cast<std::size_t>(group.elements() * m * m));
    for (std::int64_t e = 0; e < group.elements(); ++e) {
      T* k = all.data() + e * m * m;
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < m; ++j)
          k[i * m + j] = symmetric && j < i ? k[j * m + i]
                                            : static_cast<T>((static_cast<int>(random() % 65) - 32) / 8.0);
      for (int i = 0; i < m; ++i) k[i * m + i] = static_cast<T>(5 * m + (random() % 8) / 8.0);
    }
    numbers.matrices.push_back(std::move(all));
  }
  for (std::size_t g = 0; g < mesh.groups.size(); ++g)
    numbers.groups.push_back(
        {mesh.groups[g].elements(), mesh.groups[g].nodes, mesh.groups[g].connectivity, numbers.matrices[g]});
  return numbers;
}

std::vector<std::int64_t> some_unknowns(const ElementMesh& mesh) {
  std::vector<std::int64_t> list;
  for (std::int64_t u = 0; u < mesh.nodes * mesh.components; ++u)
    if (u % 7 == 0 || u % 11 == 5) list.push_back(u);
  return list;
}

template <class T>
ElementReference<T> element_reference(const ElementMesh& mesh, const ElementNumbers<T>& numbers,
                                      const std::vector<std::int64_t>& constrained, bool symmetric) {
  ElementReference<T> reference;
  const std::int64_t unknowns = mesh.nodes * mesh.components;
  reference.rows.resize(static_cast<std::size_t>(unknowns));
  std::vector<bool> given(static_cast<std::size_t>(unknowns));
  for (const std::int64_t u : constrained) given[u] = true;
  for (std::size_t g = 0; g < mesh.groups.size(); ++g) {
    const auto& group = mesh.groups[g];
    const int m = group.nodes * mesh.components;
    for (std::int64_t e = 0; e < group.elements(); ++e) {
      const T* k = numbers.matrices[g].data() + e * m * m;
      const auto unknown = [&](int i) {
        return group.connectivity[e * group.nodes + i / mesh.components] * mesh.components +
               i % mesh.components;
      };
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < m; ++j)
          if (!given[unknown(i)] && !given[unknown(j)])
            reference.rows[unknown(i)].push_back(
                {unknown(j), symmetric && j > i ? k[j * m + i] : k[i * m + j]});
    }
  }
  for (const std::int64_t u : constrained) reference.rows[u] = {{static_cast<std::int32_t>(u), T(1)}};
  return reference;
}

template <class T>
std::vector<Triplet<T>> ElementReference<T>::triplets() const {
  std::vector<Triplet<T>> list;
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (const Term& term : rows[r]) list.push_back({static_cast<std::int32_t>(r), term.col, term.value});
  return list;
}

template <class T>
testing::AssertionResult elements_are_right(const ElementReference<T>& reference, T alpha,
                                            const std::vector<T>& x, T beta, const std::vector<T>& y0,
                                            const std::vector<T>& y) {
  const long double eps = std::numeric_limits<T>::epsilon();
  for (std::size_t r = 0; r < reference.rows.size(); ++r) {
    long double sum = 0, magnitude = 0;
    for (const auto& term : reference.rows[r]) {
      const long double product = static_cast<long double>(term.value) * x[term.col];
      sum += product, magnitude += std::fabs(product);
    }
    sum *= alpha, magnitude *= std::fabs(static_cast<long double>(alpha));
    if (beta != T(0)) {
      sum += static_cast<long double>(beta) * y0[r];
      magnitude += std::fabs(static_cast<long double>(beta) * y0[r]);
    }
    const long double bound = 2 * static_cast<long double>(reference.rows[r].size() + 2) * eps * magnitude;
    const long double error = std::fabs(static_cast<long double>(y[r]) - sum);
    if (!(error <= bound))
      return testing::AssertionFailure()
             << "row " << r << " of " << reference.rows[r].size() << " terms: " << y[r] << " instead of "
             << static_cast<double>(sum) << ", error " << static_cast<double>(error) << " above the bound "
             << static_cast<double>(bound);
  }
  return testing::AssertionSuccess();
}

#define PROTEAN_INSTANTIATE(T)                                                                             \
  template ElementNumbers<T> element_numbers<T>(const ElementMesh&, bool, unsigned);                       \
  template struct ElementReference<T>;                                                                     \
  template ElementReference<T> element_reference<T>(const ElementMesh&, const ElementNumbers<T>&,          \
                                                    const std::vector<std::int64_t>&, bool);               \
  template testing::AssertionResult elements_are_right<T>(const ElementReference<T>&, T,                   \
                                                          const std::vector<T>&, T, const std::vector<T>&, \
                                                          const std::vector<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::test
