// Selectors of formats: what all have in common, the trained models against scikit-learn, and single rules.
#include "formats/selectors/selector.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/io/text_source.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "formats/selectors/trained.hpp"
#include "formats/survey.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

using nlohmann::json;

const MachineTable& table() { return builtin_machine(BuiltinHost::avx2); }
const CostModel& model() {
  static const CostModel model(table(), Space::host);
  return model;
}
ChoiceOptions options_of(std::int64_t iterations) {
  ChoiceOptions options{.expected_iterations = iterations};
  options.machine = &table();
  return options;
}

// Seconds that depend on the name of a format alone, so that measuring selectors answer the same in every run.
std::optional<FormatTimes> invented(const FormatEntry& entry) {
  double seconds = 1e-5;
  for (const char c : entry.id) seconds += 1e-7 * c;
  return FormatTimes{seconds, 10 * seconds};
}

// The text of a compressed file of this folder.
std::string text_of(const std::string& name) {
  const auto bytes = io_detail::open_text(std::string(PROTEAN_SOURCE_DIR) + "/tests/formats/" + name);
  std::vector<char> piece(std::size_t{1} << 16);
  std::string text;
  while (const std::size_t size = bytes->read(piece.data(), piece.size())) text.append(piece.data(), size);
  return text;
}

json predictions() { return json::parse(text_of("selector_predictions.json.xz")); }

std::vector<SelectedFormat> ranking(const FormatSelector& selector, const SparsityPattern& pattern,
                                    std::int64_t iterations = 300, const TrainedModels* trained = nullptr) {
  const ChoiceOptions options = options_of(iterations);
  return selector.rank(SelectorQuestion(pattern, model(), options, invented, trained));
}

std::vector<std::pair<std::string, SparsityPattern>> patterns() {
  std::vector<std::pair<std::string, SparsityPattern>> all;
  for (const BatteryMatrix& one : battery()) all.emplace_back(one.name, one.matrix.pattern);
  return all;
}

class Selectors : public testing::TestWithParam<std::string> {
 protected:
  const FormatSelector& selector_ = find_selector(GetParam());
};

TEST_P(Selectors, RanksAdmittedFormatsOnceEachAndCsr) {
  for (const auto& [name, pattern] : patterns()) {
    SCOPED_TRACE(name);
    std::set<std::string_view> admitted{"csr"};
    for (const SwitchTarget& format : survey_formats(pattern, Space::host))
      if (format.admitted && format.spec.kernel.empty()) admitted.insert(format.spec.entry->id);
    const auto known = selector_.formats();
    const auto ranked = ranking(selector_, pattern);
    std::set<std::string_view> seen;
    for (const SelectedFormat& format : ranked) {
      ASSERT_NE(format.entry, nullptr);
      EXPECT_TRUE(seen.insert(format.entry->id).second) << format.entry->id << " twice";
      EXPECT_TRUE(admitted.contains(format.entry->id)) << format.entry->id;
      EXPECT_TRUE(known.empty() || format.entry->id == "csr" ||
                  std::find(known.begin(), known.end(), format.entry->id) != known.end())
          << format.entry->id;
      EXPECT_NO_THROW((void)resolve_params(*format.entry, format.parameters));
      EXPECT_TRUE(std::isfinite(format.score) && std::isfinite(format.product_seconds) &&
                  std::isfinite(format.convert_seconds) && std::isfinite(format.uncertainty));
      EXPECT_GE(format.product_seconds, 0);
    }
    EXPECT_TRUE(seen.contains("csr"));
  }
}

TEST_P(Selectors, AnswerTheSameTwice) {
  for (const auto& [name, pattern] : patterns()) {
    SCOPED_TRACE(name);
    const auto one = ranking(selector_, pattern), other = ranking(selector_, pattern);
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].entry, other[i].entry);
      EXPECT_EQ(one[i].score, other[i].score);
      EXPECT_TRUE(one[i].parameters == other[i].parameters);
    }
  }
}

TEST_P(Selectors, HaveANameASourceAndReasons) {
  EXPECT_GT(selector_.source().size(), 20u);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60.0}});
  EXPECT_FALSE(ranking(selector_, csr.pattern).front().reason.empty());
  for (const std::string_view format : selector_.formats()) EXPECT_NO_THROW((void)find_format(format));
}

TEST_P(Selectors, TheChoiceIsTheFirstOfTheRanking) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60.0}});
  ChoiceOptions options = options_of(1000);
  options.selector = selector_.name();
  const FormatChoice choice = choose_format(csr.pattern, model(), options);
  if (selector_.measures()) {  // two answers may differ
    const auto known = selector_.formats();
    EXPECT_TRUE(choice.id == "csr" || std::find(known.begin(), known.end(), choice.id) != known.end())
        << choice.id;
    return;
  }
  const SelectedFormat first = selector_.rank(SelectorQuestion(csr.pattern, model(), options)).front();
  EXPECT_EQ(choice.id, first.entry->id);
  EXPECT_TRUE(choice.parameters == first.parameters);
  const auto A = make_matrix("auto", csr, test_context(), {}, {}, options);
  EXPECT_EQ(A->name(), choice.id);
}

TEST_P(Selectors, RefuseADeviceWhereTheirNumbersAreOfAHost) {
  if (!selector_.host_only()) {
    EXPECT_NO_THROW((void)find_selector(selector_.name(), Space::device));
    return;
  }
  EXPECT_THROW((void)find_selector(selector_.name(), Space::device), NotAvailable);
}

INSTANTIATE_TEST_SUITE_P(All, Selectors, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const std::string_view name : selector_names()) names.emplace_back(name);
                           return names;
                         }()),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SelectorNames, AnUnknownOneIsRefusedWithAllNames) {
  try {
    (void)find_selector("forest-time");
    FAIL();
  } catch (const BadArgument& error) {
    const std::string text = error.what();
    for (const std::string_view name : selector_names())
      EXPECT_NE(text.find(name), std::string::npos) << name;
  }
}

// One that ignored the matrix, or asked another one, would agree with it everywhere.
TEST(SelectorNames, EachDisagreesWithEachOtherSomewhere) {
  std::vector<SparsityPattern> all;
  for (const auto& [name, pattern] : patterns())
    if (pattern.nonzeros > 0) all.push_back(pattern);
  std::vector<CsrMatrix<double>> generated;
  generated.push_back(generate(test_context(), "poisson-2d", {{"n", 200.0}}));
  generated.push_back(generate(test_context(), "banded", {{"n", 20000.0}, {"lower", 6.0}, {"upper", 6.0}}));
  generated.push_back(generate(test_context(), "elasticity-3d", {{"n", 8.0}}));
  generated.push_back(
      generate(test_context(), "graph-laplacian", {{"n", 10000.0}, {"degree", 12.0}, {"exponent", 3.5}}));
  for (const auto& csr : generated) all.push_back(csr.pattern);
  std::map<std::string_view, std::vector<std::string>> answers;
  for (const FormatSelector* selector : selectors())
    for (const SparsityPattern& pattern : all) {
      std::string answer;
      for (const SelectedFormat& format : ranking(*selector, pattern))
        answer += std::string(format.entry->id) + " ";
      answers[selector->name()].push_back(answer);
    }
  for (const auto& [one, its] : answers)
    for (const auto& [other, theirs] : answers)
      if (one < other) { EXPECT_NE(its, theirs) << one << " and " << other << " rank alike everywhere"; }
}

// What scikit-learn predicts for the training matrices (tools/train_selectors.py --predictions). The built-in models
// have six digits, the predictions have all.
TEST(TrainedModels, PredictAsScikitLearnDoes) {
  const json stored = predictions();
  ASSERT_EQ(stored.at("features").size(), feature_names.size());
  for (std::size_t i = 0; i < feature_names.size(); ++i)
    EXPECT_EQ(stored.at("features").at(i), feature_names[i]);
  const TrainedModels& trained = builtin_trained();
  int compared = 0;
  for (const json& row : stored.at("matrices")) {
    SCOPED_TRACE(row.at("matrix").get<std::string>());
    PatternFeatures features;
    for (std::size_t i = 0; i < feature_names.size(); ++i)
      features.values[i] = row.at("features").at(i).get<double>();
    for (const auto& [selector, expected] : row.at("classifiers").items()) {
      const std::vector<double> got = trained.classifier(selector).ensemble(features);
      ASSERT_EQ(got.size(), expected.size()) << selector;
      for (std::size_t i = 0; i < got.size(); ++i, ++compared)
        EXPECT_NEAR(got[i], expected[i].get<double>(), 1e-5) << selector;
    }
    for (const auto& [selector, formats] : row.at("times").items())
      for (const auto& [format, expected] : formats.items()) {
        const TimesOfFormat& times = trained.times_of(selector).at(format);
        EXPECT_NEAR(times.product(features).front(), expected.at(0).get<double>(), 1e-5)
            << selector << format;
        EXPECT_NEAR(times.conversion(features).front(), expected.at(1).get<double>(), 1e-5)
            << selector << format;
        ++compared;
      }
  }
  std::size_t models = 0;  // of each matrix: probabilities, and formats with times
  for (const auto& [selector, classifier] : trained.classifiers) models += classifier.classes.size();
  for (const auto& [selector, formats] : trained.times) models += formats.size();
  EXPECT_EQ(static_cast<std::size_t>(compared), models * stored.at("matrices").size());
  EXPECT_GE(trained.classifiers.size() * trained.times.size() * stored.at("matrices").size(), 3u * 2u * 50u);
}

// The features of the training matrices that the tests can make equal the features with which the models were trained.
TEST(TrainedModels, FeaturesAreThoseOfTheTraining) {
  const json stored = predictions();
  const std::map<std::string, CsrMatrix<double>> made = {
      {"poisson-2d-120", generate(test_context(), "poisson-2d", {{"n", 120.0}})},
      {"poisson-3d-20", generate(test_context(), "poisson-3d", {{"n", 20.0}})}};
  int found = 0;
  for (const json& row : stored.at("matrices")) {
    const auto one = made.find(row.at("matrix").get<std::string>());
    if (one == made.end()) continue;
    ++found;
    const PatternFeatures features = features_of(one->second.pattern);
    for (std::size_t i = 0; i < feature_names.size(); ++i)
      EXPECT_DOUBLE_EQ(features.values[i], row.at("features").at(i).get<double>()) << feature_names[i];
  }
  EXPECT_EQ(found, 2);
}

// Trained with the times of the matrices exchanged (tools/train_selectors.py --permute), a model must answer
// otherwise: one that did not learn from the times would not notice.
TEST(TrainedModels, ThoseOfPermutedTimesRankOtherwise) {
  const std::string name = "selector_permuted.json.xz";
  const TrainedModels permuted = parse_trained(text_of(name), name);
  const json stored = predictions();
  for (const char* const selector : {"smat", "sedaghati", "oracle-forest"}) {
    int otherwise = 0;
    for (const json& row : stored.at("matrices")) {
      PatternFeatures features;
      for (std::size_t i = 0; i < feature_names.size(); ++i)
        features.values[i] = row.at("features").at(i).get<double>();
      const auto best = [&](const TrainedModels& models) {
        const Classifier& classifier = models.classifier(selector);
        const std::vector<double> p = classifier.ensemble(features);
        return classifier.classes[static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin())];
      };
      otherwise += best(permuted) != best(builtin_trained());
    }
    EXPECT_GT(otherwise, 0) << selector;
  }
  for (const char* const selector : {"zhao", "forest-times"}) {
    const auto csr = generate(test_context(), "banded", {{"n", 20000.0}, {"lower", 6.0}, {"upper", 6.0}});
    const auto one = ranking(find_selector(selector), csr.pattern),
               other = ranking(find_selector(selector), csr.pattern, 300, &permuted);
    std::string a, b;
    for (const auto& format : one) a += std::string(format.entry->id) + " ";
    for (const auto& format : other) b += std::string(format.entry->id) + " ";
    EXPECT_NE(a, b) << selector;
  }
}

TEST(TrainedModels, AFileOfAnotherFormIsRefused) {
  const std::string begin =
      R"({"trained_on": "x", "times": {}, "linear": {}, "classifiers": {"a": {"features": ["rows"],)"
      R"("classes": ["csr"], "model": {"combine": "mean", "base": [0], "rate": 1, "trees": [)";
  const auto of_trees = [&](const std::string& trees) { return parse_trained(begin + trees + "]}}}}", "f"); };
  EXPECT_EQ(of_trees("[[[1]]]").classifier("a").ensemble(PatternFeatures{}).front(), 1);
  EXPECT_THROW((void)of_trees(""), BadFile);                                // no tree
  EXPECT_THROW((void)of_trees("[]"), BadFile);                              // no node
  EXPECT_THROW((void)of_trees("[[0, 1.5, 0, 1], [[1]]]"), BadFile);         // a circle
  EXPECT_THROW((void)of_trees("[[0, 1.5, 1, 2], [[1]]]"), BadFile);         // a child that is not there
  EXPECT_THROW((void)of_trees("[[7, 1.5, 1, 2], [[1]], [[1]]]"), BadFile);  // a feature that is not there
  EXPECT_THROW((void)of_trees("[[[1, 2]]]"), BadFile);                      // more values than classes
  EXPECT_THROW((void)parse_trained("{", "f"), BadFile);
}

// Worked by hand on T8 of the catalogue: lengths 2 5 1 0 3 8 2 3.
TEST(Features, OfTheCommonTestMatrix) {
  const CsrMatrix<double> csr = t8();
  const PatternFeatures f = features_of(csr.pattern);
  EXPECT_EQ(f["rows"], 8);
  EXPECT_EQ(f["nonzeros"], 24);
  EXPECT_EQ(f["mean"], 3);
  EXPECT_EQ(f["longest"], 8);
  EXPECT_EQ(f["shortest"], 0);
  EXPECT_EQ(f["empty_rows"], 1.0 / 8);
  EXPECT_EQ(f["diagonals"], 10);
  EXPECT_NEAR(f["deviation"], std::sqrt((4 + 25 + 1 + 0 + 9 + 64 + 4 + 9) / 8.0 - 9), 1e-12);
  EXPECT_EQ(f["er_ell"], 24.0 / 64);
  EXPECT_EQ(f["er_dia"], 24.0 / 80);
  // Offsets and entries: -5:1 of 3, -4:3 of 4, -3:1, -2:1, -1:2, 0:6 of 8, 1:5 of 7, 2:2, 3:2, 4:1.
  EXPECT_EQ(f["true_diagonals"], 3);
  // Runs of each row: 1 1 1 0 3 1 1 2.
  EXPECT_EQ(f["runs_max"], 3);
  EXPECT_EQ(f["runs_mean"], 10.0 / 8);
  EXPECT_EQ(f["run_size_max"], 8);
  EXPECT_EQ(f["run_size_mean"], 24.0 / 10);
  EXPECT_EQ(f["row_changes"], 7.0 / 8);
}

// hyb's width has the smallest cost over all widths, found here by trying each.
TEST(LiPmf, TakesTheWidthOfTheFewestBytes) {
  const CsrMatrix<double> csr = battery_matrix("one_full_row_300");
  for (const SelectedFormat& format : ranking(find_selector("li-pmf"), csr.pattern)) {
    if (format.entry->id != "hyb") continue;
    std::int64_t best = 0;
    double fewest = 1e300;
    for (std::int64_t K = 0; K <= csr.cols(); ++K) {
      std::int64_t rest = 0;
      for (std::int64_t i = 0; i < csr.rows(); ++i)
        rest += std::max<std::int64_t>(0, csr.pattern.row_length(i) - K);
      const double bytes = 12.0 * static_cast<double>(csr.rows() * K) + 16.0 * static_cast<double>(rest);
      if (bytes < fewest) fewest = bytes, best = K;
    }
    EXPECT_EQ(format.parameters.integer("K"), best);
    return;
  }
  FAIL() << "hyb is not in the ranking";
}

TEST(Zhao, FewProductsStayInCsrAndNothingIsComputed) {
  const auto csr = generate(test_context(), "banded", {{"n", 20000.0}, {"lower", 6.0}, {"upper", 6.0}});
  const auto few = ranking(find_selector("zhao"), csr.pattern, 10);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_EQ(few.front().entry->id, "csr");
  EXPECT_NE(ranking(find_selector("zhao"), csr.pattern, 1000000).front().entry->id, "csr");
}

TEST(KubotaTakahashi, ConversionsCountByTheExpectedProducts) {
  const auto csr = generate(test_context(), "banded", {{"n", 20000.0}, {"lower", 6.0}, {"upper", 6.0}});
  const ChoiceOptions few = options_of(1), many = options_of(1000000);
  const FormatTimer timer = [](const FormatEntry& entry) -> std::optional<FormatTimes> {
    return entry.id == "dia" ? FormatTimes{1e-6, 1e-3} : FormatTimes{2e-6, 5e-3};
  };
  const FormatSelector& selector = find_selector("kubota-takahashi");
  EXPECT_EQ(selector.rank(SelectorQuestion(csr.pattern, model(), few, timer)).front().entry->id, "csr");
  EXPECT_EQ(selector.rank(SelectorQuestion(csr.pattern, model(), many, timer)).front().entry->id, "dia");
}

// blocks of 3 x 3: elasticity with three unknowns a node.
TEST(Choi, FindsTheSizeOfTheBlocks) {
  const auto csr = generate(test_context(), "elasticity-3d", {{"n", 8.0}});
  const SelectedFormat best = ranking(find_selector("choi"), csr.pattern).front();
  EXPECT_EQ(best.entry->id, "bcsr");
  EXPECT_EQ(best.parameters.word("rows"), "3");
  EXPECT_EQ(best.parameters.word("cols"), "3");
}

}  // namespace
}  // namespace protean::test
