// The policy in a solve that begins with element matrices: bounds, sample, decisions.
#include <cmath>

#include "element_start.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "solvers/auto_switcher.hpp"
#include "solving.hpp"
#include "support/elements.hpp"
#include "support/policy_clock.hpp"

namespace protean::test {
namespace {

// The bounds for the comparison of products, against their definition.
TEST(ElementBounds, AreTheSumOfMagnitudes) {
  for (const Space space : {Space::host, Space::device}) {
    const ContextPtr context = test_context(space);
    if (!context) continue;
    for (const ElementMesh& mesh : element_meshes())
      for (const bool symmetric : {false, true}) {
        SCOPED_TRACE(mesh.name);
        const auto numbers = element_numbers<double>(mesh, symmetric);
        const auto constrained = some_unknowns(mesh);
        ElementOptions options;
        options.symmetric = symmetric, options.components = mesh.components;
        options.allow_unused_nodes = mesh.unused, options.constrained = constrained;
        const auto A = make_element_operator<double>(context, mesh.nodes, numbers.groups, options);
        if (A->rows() == 0) continue;
        Placed<double> bounds(context, std::vector<double>(static_cast<std::size_t>(A->rows()), 1.0));
        A->add_rounding_bounds(0.5, bounds.view());
        const auto found = bounds.fetch();
        const auto reference = element_reference<double>(mesh, numbers, constrained, symmetric);
        std::vector<bool> given(found.size(), false);
        for (const std::int64_t u : constrained) given[u] = true;
        for (std::size_t r = 0; r < found.size(); ++r) {
          double sum = 0;
          for (const auto& term : reference.rows[r]) sum += std::fabs(term.value);
          const double terms = static_cast<double>(reference.rows[r].size());
          EXPECT_DOUBLE_EQ(found[r], given[r] ? 1 : 1 + 0.5 * (terms + 2) * sum) << r;
        }
      }
  }
}

TEST(ElementSample, RowsAreThoseOfTheAssembledMatrix) {
  for (const ElementMesh& mesh : element_meshes()) {
    SCOPED_TRACE(mesh.name);
    const auto numbers = element_numbers<double>(mesh, false);
    const auto constrained = some_unknowns(mesh);
    ElementOptions options;
    options.components = mesh.components, options.allow_unused_nodes = mesh.unused;
    options.constrained = constrained;
    const auto A = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, options);
    const CsrMatrix<double> csr = A->assemble();
    const std::int64_t n = A->rows();
    const std::pair<std::int64_t, std::int64_t> blocks[] = {{n / 5, n / 3}, {n / 2, n}};
    const SparsityPattern rows = A->pattern_of_rows(blocks);
    std::int64_t at = 0;
    for (const auto& [first, end] : blocks)
      for (std::int64_t r = first; r < end; ++r, ++at) {
        const auto expected = csr.pattern.row(r), found = rows.row(at);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end())) << r;
      }
    EXPECT_EQ(rows.rows, at);
    EXPECT_EQ(rows.cols, n);
    const std::pair<std::int64_t, std::int64_t> beyond[] = {{0, n + 1}}, crossed[] = {{1, 1}, {0, 0}};
    EXPECT_THROW((void)A->pattern_of_rows(beyond), BadArgument);
    if (n > 0) { EXPECT_THROW((void)A->pattern_of_rows(crossed), BadArgument); }
  }
}

TEST(ElementSample, ASurveyIsLikeThatOfTheAssembledMatrix) {
  const Squares squares(90, 0);
  const auto A = squares.on(test_context(), ElementScatter::gather);
  const auto sampled = survey_formats(*A), whole = survey_formats(A->assemble().pattern, Space::host);
  ASSERT_EQ(sampled.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(whole[i].spec.name());
    EXPECT_EQ(sampled[i].spec.name(), whole[i].spec.name());
    EXPECT_EQ(sampled[i].admitted, whole[i].admitted);
    if (whole[i].admitted && whole[i].spec.entry->id == "csr") {
      EXPECT_NEAR(static_cast<double>(sampled[i].bytes) / static_cast<double>(whole[i].bytes), 1, 0.1);
    }
  }
}

// The policy, with tables that predict a large gain or none. Speed is not tested.
struct PolicyWorld {
  const char* name;
  double product, assembly;  // of sell-packed, and to CSR, in seconds; a product on elements takes 1 ms
  bool knows_elements;
  bool changes;
};

class ElementPolicy : public testing::TestWithParam<PolicyWorld> {};

TEST_P(ElementPolicy, ChangesWhenThatPays) {
  const Squares squares(100, 0);
  const ContextPtr context = Context::host(1);
  const CsrMatrix<double> csr = squares.on(context, ElementScatter::atomic)->assemble();
  for (const bool overlapped : {false, true}) {
    Matrix<double> A(squares.on(context, ElementScatter::atomic));
    MachineTable table;
    table.matrices.push_back({"made up",
                              Space::host,
                              csr.rows(),
                              csr.nonzeros(),
                              {{"csr", csr.bytes(), GetParam().product * 2, 0},
                               {"sell-packed", csr.bytes(), GetParam().product, 1e-9}}});
    if (GetParam().knows_elements) {
      table.matrices[0].formats.push_back({"lma-atomic", A.elements()->bytes(), 1e-3, 0});
      table.matrices[0].formats.push_back(
          {"assembly", csr.bytes(), GetParam().product * 2, GetParam().assembly});
    }
    const PolicyClock clock(A, table);
    AutoSwitchOptions options;
    options.goal = 1e-9, options.policy.overlapped = overlapped, options.survey_seconds = 0;
    // An allowance for any change, except for an assembly of 1000 s.
    options.policy.worst_factor = options.policy.forecast_factor = 1000;
    // Waits for a build next to the solve. It is called first, so that the wait is not counted.
    struct Patient final : SolveObserver {
      Matrix<double>& A;
      explicit Patient(Matrix<double>& a) : A(a) {}
      bool on_iteration(const IterationInfo&) override {
        (void)A.wait_prepared();
        return true;
      }
    } patient(A);
    AutoSwitcher<double> switcher(
        A, CostModel(table, Space::host),
        [&] {
          auto targets = survey_formats(*A.elements());
          std::erase_if(targets, [](const SwitchTarget& target) {
            return target.spec.name() != "csr" && target.spec.name() != "sell-packed";
          });
          for (SwitchTarget& target : targets) target.plan_seconds = 0;  // what the table says, nothing else
          return targets;
        },
        options, &patient);
    const Solved solved = solve_with(A, csr, {"", "cg", "", 0}, &switcher);
    switcher.finish();
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
    const auto records = switcher.candidates();
    ASSERT_FALSE(records.empty());
    const auto seen = [&](std::string_view format) -> const CandidateRecord& {
      for (const CandidateRecord& record : records)
        if (record.format == format) return record;
      throw std::runtime_error("there is no such candidate");
    };
    EXPECT_TRUE(seen("lma-atomic").ran);
    EXPECT_GT(seen("lma-atomic").measured_product, 0);
    EXPECT_GE(seen("sell-packed").predicted_convert, 0);
    if (!GetParam().changes) {
      EXPECT_TRUE(A.on_elements());
      EXPECT_TRUE(A.history().empty());
      EXPECT_FALSE(A.source_assembled()) << "there is no assembly without a gain";
      ASSERT_FALSE(switcher.decisions().empty());
      EXPECT_EQ(switcher.decisions().back().action, SwitchAction::stay);
      continue;
    }
    ASSERT_FALSE(A.history().empty());
    EXPECT_EQ(A.history()[0].from, "lma-atomic");
    const std::string to = A.history()[0].to;
    if (GetParam().knows_elements) { EXPECT_EQ(to, "sell-packed"); }
    EXPECT_EQ(A.history()[0].overlapped, overlapped);
    EXPECT_GT(A.history()[0].assemble_seconds, 0);
    EXPECT_GT(seen(to).measured_convert, 0);
    for (const DecisionRecord& decision : switcher.decisions())
      if (decision.action == SwitchAction::begin) {
        EXPECT_LE(decision.excess_seconds + decision.worst_seconds, decision.allowed_seconds);
      }
    // Slower than the element matrices, so the policy changed back to them.
    if (A.history().size() > 1) { EXPECT_EQ(A.history()[1].to, "lma-atomic"); }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ElementPolicy,
                         testing::Values(PolicyWorld{"pays", 1e-6, 1e-9, true, true},
                                         PolicyWorld{"assembly_too_dear", 1e-6, 1e3, true, false},
                                         PolicyWorld{"no_faster", 1e-2, 1e-9, true, false},
                                         PolicyWorld{"pays_by_a_table_without_elements", 1e-12, 0, false,
                                                     true}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace protean::test
