// Vector operations and products of the parts of a system on simulated devices.
#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/generate/generate.hpp"
#include "core/simulated_device.hpp"
#include "distributed/part_operator.hpp"
#include "distributed/simulated_parts.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/engines.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

using detail::PartHalo;
using detail::Partition;
using detail::SimulatedParts;

// A system of parts, each with a thread while work() runs.
struct System {
  System(std::int64_t rows, int count, unsigned seed) : System(random_rows(rows, count, seed), count) {}
  System(std::vector<std::int32_t> part_of_row, int count)
      : partition(std::make_shared<Partition>(std::move(part_of_row), count)) {
    for (int p = 0; p < count; ++p) contexts.push_back(fake_device_context());
    links = std::make_unique<SimulatedParts>(contexts, partition);
  }
  static std::vector<std::int32_t> random_rows(std::int64_t rows, int count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int32_t> part(static_cast<std::size_t>(rows));
    for (std::int32_t& one : part) one = static_cast<std::int32_t>(random() % static_cast<unsigned>(count));
    return part;
  }
  template <class Work>
  void work(Work&& of_part) {
    links->begin();
    std::vector<std::jthread> threads;
    for (int p = 0; p < partition->parts(); ++p)
      threads.emplace_back([&, p] { of_part(p, contexts[static_cast<std::size_t>(p)]); });
  }
  template <class T>
  std::vector<T> part_of(const std::vector<T>& whole, int part) const {
    std::vector<T> own;
    for (const std::int32_t r : partition->rows_of(part)) own.push_back(whole[static_cast<std::size_t>(r)]);
    return own;
  }

  std::shared_ptr<const Partition> partition;
  std::vector<ContextPtr> contexts;
  std::unique_ptr<SimulatedParts> links;
};

template <class T>
T fetched(const Context& context, const Vector<T>& from) {
  T value = 0;
  copy<T>(context, VectorView<const T>(from), {&value, 1});
  return value;
}

// What dot() must give: sums of the parts, added in their order.
TEST(Parts, AddTheirSumsInOrder) {
  System system(500, 4, 1);
  const auto x = sample_vector<float>(500, 1), y = sample_vector<float>(500, 2);
  std::vector<float> found(4), alone(4);
  system.work([&](int p, const ContextPtr& context) {
    const Placed<float> px(context, system.part_of(x, p)), py(context, system.part_of(y, p));
    Vector<float> number(context, 1);
    dot<float>(*context, px.read(), py.read(), number.data());
    found[static_cast<std::size_t>(p)] = fetched(*context, number);
    const detail::LocalWork local;
    dot<float>(*context, px.read(), py.read(), number.data());
    alone[static_cast<std::size_t>(p)] = fetched(*context, number);
  });
  const float sum = ((alone[0] + alone[1]) + alone[2]) + alone[3];
  for (const float one : found) EXPECT_EQ(one, sum);
  EXPECT_NE(alone[0], sum);
}

// Each reduction of blas1.hpp is one over all parts.
TEST(Parts, ReduceInEachOperation) {
  constexpr std::int64_t n = 300;
  System system(n, 3, 5);
  const auto x = sample_vector<double>(n, 1), y = sample_vector<double>(n, 2),
             z = sample_vector<double>(n, 3);
  const auto all_of = [&](const ContextPtr& context, auto&& own) {
    std::vector<double> results;
    const auto note = [&](const Vector<double>& number, int k) {
      std::vector<double> values(static_cast<std::size_t>(number.size()));
      copy<double>(*context, VectorView<const double>(number), {values.data(), number.size()});
      results.insert(results.end(), values.begin(), values.begin() + k);
    };
    const auto fresh = [&] {
      return std::tuple(Placed<double>(context, own(x)), Placed<double>(context, own(y)),
                        Placed<double>(context, own(z)));
    };
    Vector<double> number(context, 2);
    auto [a, b, c] = fresh();
    const std::int64_t local = a.view().size;
    dot<double>(*context, a.read(), b.read(), number.data()), note(number, 1);
    dot_pair<double>(*context, a.read(), b.read(), c.read(), number.data()), note(number, 2);
    axpy_dot<double>(*context, 0.5, a.read(), b.view(), number.data()), note(number, 1);
    cg_residual<double>(*context, 0.25, a.read(), c.read(), b.view(), number.data()), note(number, 2);
    cg_residual<double>(*context, 0.25, a.read(), {}, b.view(), number.data()), note(number, 2);
    bicgstab_half<double>(*context, 0.5, a.read(), c.read(), b.view(), Vector<double>(context, local),
                          number.data());
    note(number, 1);
    bicgstab_half<double>(*context, 0.5, a.read(), {}, b.view(), {}, number.data()), note(number, 1);
    Placed<double> d(context, own(z)), e(context, own(y));
    bicgstab_update<double>(*context, 0.5, a.read(), 0.25, c.read(), b.read(), c.read(), d.view(), e.view(),
                            number.data());
    note(number, 2);
    max_abs<double>(*context, a.read(), number.data()), note(number, 1);
    block_dot<double>(*context, {a.data(), local, local, 1, Space::device}, c.read(), number.data()),
        note(number, 1);
    block_axpy<double>(*context, 0.5, {a.data(), local, local, 1, Space::device}, number.data(), b.view(),
                       number.data() + 1);
    note(number, 2);
    return results;
  };
  const ContextPtr whole = fake_device_context();
  const std::vector<double> expected = all_of(whole, [](const std::vector<double>& v) { return v; });
  ASSERT_EQ(expected.size(), 16U);
  system.work([&](int p, const ContextPtr& context) {
    const std::vector<double> found =
        all_of(context, [&](const std::vector<double>& v) { return system.part_of(v, p); });
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], expected[k], 1e-11 * std::max(1.0, std::abs(expected[k]))) << k;
  });
}

TEST(Parts, FindALargestEntryAndNaN) {
  System system(50, 3, 2);
  std::vector<double> x(50, 1.0);
  x[17] = -7;
  const auto largest = [&] {
    std::vector<double> found(3);
    system.work([&](int p, const ContextPtr& context) {
      const Placed<double> own(context, system.part_of(x, p));
      Vector<double> number(context, 1);
      max_abs<double>(*context, own.read(), number.data());
      found[static_cast<std::size_t>(p)] = fetched(*context, number);
    });
    return found;
  };
  EXPECT_EQ(largest(), std::vector<double>(3, 7.0));
  x[3] = std::nan("");
  for (const double one : largest()) EXPECT_TRUE(std::isnan(one));
}

// Counts of the hosts, and who the parts are.
TEST(Parts, KnowEachOther) {
  System system({2, 0, 0, 2, 1}, 3);
  system.work([&](int p, const ContextPtr& context) {
    detail::Communicator* const all = detail::communicator_of(*context);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->part(), p);
    EXPECT_EQ(all->parts(), 3);
    EXPECT_EQ(detail::all_rows(*context, -1), 5);
    EXPECT_EQ(detail::first_row(*context), system.partition->begin(p));
    EXPECT_EQ(all->number_of(0), system.partition->rows_of(p).front());
    EXPECT_EQ(detail::counted(*context, p + 1), 6);
    EXPECT_EQ(detail::agreed(*context, 10.0 + p), 10);
    const detail::LocalWork local;
    EXPECT_EQ(detail::communicator_of(*context), nullptr);
    EXPECT_EQ(detail::all_rows(*context, 2), 2);
  });
  const ContextPtr own = system.contexts.front();
  system.links.reset();
  EXPECT_EQ(detail::communicator_of(*own), nullptr) << "a context is released with its system";
}

TEST(Parts, RefuseContextsThatAreNotTheirs) {
  const auto partition = std::make_shared<Partition>(std::vector<std::int32_t>{0, 1}, 2);
  const ContextPtr one = fake_device_context(), other = fake_device_context();
  EXPECT_THROW(SimulatedParts({one, test_context()}, partition), BadArgument);
  EXPECT_THROW(SimulatedParts({one, one}, partition), BadArgument);
  EXPECT_THROW(SimulatedParts({one}, partition), BadArgument);
  const SimulatedParts first({one, other}, partition);
  EXPECT_THROW(SimulatedParts({other, fake_device_context()}, partition), BadArgument);
  EXPECT_NE(one->simulated()->communicator(), nullptr) << "a refused system leaves the first one as it is";
}

// A part that fails ends the others where they wait, and the system works again.
TEST(Parts, EndWithTheOneThatFails) {
  System system(30, 3, 4);
  for (int round = 0; round < 3; ++round) {
    std::vector<int> ended(3, 0);
    system.work([&](int p, const ContextPtr& context) {
      detail::Communicator* const all = detail::communicator_of(*context);
      EXPECT_EQ(detail::counted(*context, 1), 3);
      if (p == 1) return system.links->abandon();
      EXPECT_THROW((void)all->gathered({1.0}), detail::PartAbandoned);
      ended[static_cast<std::size_t>(p)] = 1;
    });
    EXPECT_EQ(ended, (std::vector<int>{1, 0, 1}));
    system.work([&](int, const ContextPtr& context) { EXPECT_EQ(detail::counted(*context, 2), 6); });
  }
}

template <class T>
struct Blocks {
  Blocks(System& of, const CsrMatrix<T>& csr, const std::vector<PartHalo>& halos, int part,
         const ContextPtr& context, const FormatEntry& interior, const FormatEntry& boundary) {
    const PartHalo& halo = halos[static_cast<std::size_t>(part)];
    const detail::LocalWork local;
    const detail::PartBlocks<T> blocks(test_context(), csr, *of.partition, halo, part);
    auto inner = make_matrix(interior, upload(context, blocks.interior()), context, most_tolerant(interior));
    std::unique_ptr<AssembledMatrix<T>> outer;
    if (!halo.boundary_rows.empty())
      outer = make_matrix(boundary, upload(context, blocks.boundary()), context, most_tolerant(boundary));
    A = std::make_unique<detail::PartOperator<T>>(context, std::move(inner), std::move(outer), halo,
                                                  of.links->exchange(part, halo, T()));
  }
  std::unique_ptr<detail::PartOperator<T>> A;
};

template <class T>
CsrMatrix<T> as(const CsrMatrix<double>& csr) {
  auto values = std::make_shared<std::vector<T>>(csr.values, csr.values + csr.nonzeros());
  CsrMatrix<T> other;
  other.pattern = csr.pattern, other.values = values->data(), other.values_owner = values;
  return other;
}

// Products of several kinds, one behind another without a sum between them, so that a part may run ahead of others.
template <class T>
void expect_products(const CsrMatrix<T>& csr, System& system, const FormatEntry& interior,
                     const FormatEntry& boundary) {
  SCOPED_TRACE(std::string(interior.id) + " and " + std::string(boundary.id));
  const std::int64_t n = csr.rows();
  const std::vector<PartHalo> halos = detail::halos_of(csr.pattern, *system.partition);
  constexpr int rounds = 6;
  std::vector<std::vector<T>> xs, ys;
  for (int k = 0; k < rounds; ++k)
    xs.push_back(sample_vector<T>(n, static_cast<unsigned>(k))), ys.emplace_back(static_cast<std::size_t>(n));
  const std::vector<T> y0 = sample_vector<T>(n, 99);
  system.work([&](int p, const ContextPtr& context) {
    const Blocks<T> own(system, csr, halos, p, context, interior, boundary);
    std::vector<Placed<T>> px, py;
    for (int k = 0; k < rounds; ++k)
      px.emplace_back(context, system.part_of(xs[static_cast<std::size_t>(k)], p)),
          py.emplace_back(context, system.part_of(y0, p));
    for (int k = 0; k < rounds; ++k)
      own.A->apply(T(2), px[static_cast<std::size_t>(k)].read(), T(k % 2),
                   py[static_cast<std::size_t>(k)].view());
    const auto rows = system.partition->rows_of(p);
    for (int k = 0; k < rounds; ++k) {
      const std::vector<T> y = py[static_cast<std::size_t>(k)].fetch();
      for (std::size_t i = 0; i < rows.size(); ++i)
        ys[static_cast<std::size_t>(k)][static_cast<std::size_t>(rows[i])] = y[i];
    }
  });
  for (int k = 0; k < rounds; ++k)
    EXPECT_TRUE(product_is_right<T>(csr, T(2), xs[static_cast<std::size_t>(k)], T(k % 2), y0,
                                    ys[static_cast<std::size_t>(k)]))
        << k;
}

TEST(PartOperator, MultipliesInEachEngineOfFormats) {
  const auto csr = generate(test_context(), "convection-diffusion-3d", {{"n", 6}});
  System system(csr.rows(), 4, 8);
  const std::int64_t before = system.links->overtaken();
  for (const FormatEntry* entry : one_of_each_engine(Space::host)) {
    if (entry->id == "split") continue;
    const FormatEntry& format = fake_format(entry->id);
    expect_products<double>(csr, system, format, fake_format("csr"));
    if (!entry->traits.square_only)
      expect_products<float>(as<float>(csr), system, fake_format("csr"), format);
  }
  EXPECT_GT(system.links->overtaken(), before) << "messages arrive in another order than they were sent";
}

// Dense rows across all parts, disconnected parts, an unsymmetric pattern, one row in each part.
TEST(PartOperator, MultipliesOddMatrices) {
  std::vector<Triplet<double>> dense, apart, one_way;
  for (std::int32_t i = 0; i < 40; ++i) {
    dense.push_back({i, i, 4.0}), apart.push_back({i, i, 2.0 + i}), one_way.push_back({i, i, 1.5});
    if (i > 0)
      dense.push_back({0, i, 1.0 / i}), one_way.push_back({i, 0, 1.0}),
          one_way.push_back({i, i - 1, -0.5 * (i > 1)});
    if (i % 2 == 0) apart.push_back({i, i + 1, 1.0});
  }
  const FormatEntry &csr = fake_format("csr"), &ell = fake_format("ell");
  for (const auto& entries : {dense, apart, one_way}) {
    const auto A = csr_from_triplets<double>(test_context(), 40, 40, entries);
    for (const int parts : {2, 3, 8}) {
      System system(40, parts, 6);
      expect_products<double>(A, system, csr, ell);
    }
    std::vector<std::int32_t> in_order(40);
    for (std::int32_t i = 0; i < 40; ++i) in_order[static_cast<std::size_t>(i)] = i / 5;
    System rows(in_order, 8);
    expect_products<double>(A, rows, ell, csr);
  }
}

}  // namespace
}  // namespace protean::test
