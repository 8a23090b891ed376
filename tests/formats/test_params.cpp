// The contract of test_formats.cpp for parameters that are not the default, on the whole battery, and for
// every kernel on matrices that are large or have wide row pointers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/engines.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Case {
  std::string format;
  FormatParams params;
  Space space = Space::host;
  std::string kernel = "native";
};

bool has_kernel(const Case& one) {
  for (const Kernel& kernel : kernels_in(find_format(one.format), one.space))
    if (kernel.name == one.kernel) return true;
  return false;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  const std::string all = "1000000";
  for (const std::string C : {"1", "2", "4", "8", "16", "32", "64"})
    for (const std::string sigma : {"1", "64", "1048576"})
      list.push_back({"sell-c-sigma", {{"C", C}, {"sigma", sigma}, {"max_fill", all}}});
  for (const std::string round : {"2", "4", "32"})
    list.push_back({"sell-c-sigma", {{"C", "4"}, {"sigma", "64"}, {"round", round}, {"max_fill", all}}});
  for (const std::string hack : {"0", "1", "7", "32"})
    for (const std::string sort : {"none", "all"})
      list.push_back({"hll", {{"hack", hack}, {"sort", sort}, {"diagonal_index", "no"}, {"max_fill", all}}});
  for (const std::string T : {"1", "2", "4", "8", "16", "32"})
    for (const std::string S : {"0", "1", "48"})
      list.push_back({"sliced-ellr-t", {{"S", S}, {"T", T}, {"max_fill", all}}});
  for (const std::string C : {"1", "7", "64"}) list.push_back({"bin-csr", {{"C", C}, {"max_fill", all}}});
  for (const std::string C : {"1", "5", "32"})
    for (const std::string padding : {"0", "50", "99"})
      list.push_back({"sell-variable", {{"C", C}, {"padding", padding}}});
  for (const std::string balance : {"rows", "merge", "blocks"})
    list.push_back({"csr", {{"balance", balance}}});
  for (const std::string align : {"1", "64"}) list.push_back({"ell", {{"align", align}, {"max_fill", all}}});
  list.push_back({"dia", {{"max_fill", all}}});
  for (const std::string hack : {"1", "2", "7", "8", "32", "1024"})
    list.push_back({"hdi", {{"hack", hack}, {"max_fill", all}}});
  for (const std::string block : {"1", "7", "32", "1024"})
    for (const std::string gap : {"1", "5"})
      list.push_back({"ddd-split", {{"block", block}, {"gap", gap}, {"max_fill", all}}});
  for (const std::string block : {"1", "2", "3", "4", "5", "7", "8"})
    list.push_back({"cds", {{"block", block}, {"max_fill", all}}});
  for (const std::string rows : {"1", "7", "32", "1024"})
    for (const std::string scatter : {"1", "60", "100"})
      list.push_back({"crsd", {{"rows", rows}, {"scatter", scatter}, {"max_fill", all}}});
  for (const std::string format : {"bdia", "ddd-naive"}) list.push_back({format, {{"max_fill", all}}});
  for (const std::string order : {"natural", "sorted"}) list.push_back({"sell-packed", {{"order", order}}});
  for (const std::string rows : {"1", "2", "3", "4", "8"})
    for (const std::string cols : {"1", "2", "3", "4", "8"})
      list.push_back({"bcsr", {{"rows", rows}, {"cols", cols}, {"max_fill", all}}});
  for (const std::string rows : {"1", "2", "3", "4", "8"})
    for (const std::string cols : {"1", "3", "4", "5", "8"})
      list.push_back({"bcsr", {{"rows", rows}, {"cols", cols}, {"order", "units"}, {"max_fill", all}}});
  for (const auto& [rows, cols] :
       {std::pair<std::string, std::string>{"6", "6"}, {"5", "7"}, {"2", "6"}, {"7", "8"}, {"8", "5"}})
    for (const std::string format : {"bcsr", "bcoo", "bcsr-choi", "bcsr-verschoor", "bsellpack"})
      list.push_back({format, {{"rows", rows}, {"cols", cols}, {"max_fill", all}}});
  for (const std::string slice : {"0", "1", "3", "32"})
    for (const std::string sort : {"none", "all"})
      for (const std::string order : {"units", "elements"})
        list.push_back({"bsellpack",
                        {{"rows", "2"},
                         {"cols", slice == "3" ? "8" : "3"},
                         {"slice", slice},
                         {"sort", sort},
                         {"order", order},
                         {"max_fill", all}}});
  for (const std::string size : {"1", "2", "3", "4", "5", "6", "8"})
    list.push_back({"bin-bcsr", {{"size", size}, {"bin", size == "4" ? "1" : "7"}, {"max_fill", all}}});
  for (const std::string rows : {"1", "2", "3", "4"})
    for (const std::string cols : {"1", "3", "4"})
      for (const std::string select : {"dynamic", "greedy"})
        list.push_back({"bcoo-bcsr",
                        {{"rows", rows},
                         {"cols", cols},
                         {"theta", "40"},
                         {"select", select},
                         {"strip", "10"},
                         {"max_fill", all}}});
  for (const std::string selection : {"paper", "code", "csr"})
    for (const std::string coo : {"tiles", "deferred"})
      list.push_back({"tilespmv-adpt", {{"selection", selection}, {"coo", coo}}});
  for (const std::string selection : {"paper", "code"})
    list.push_back({"tilespmv-adpt", {{"selection", selection}, {"coo", "deferred"}, {"rest", "csr5"}}});
  for (const std::string tile : {"1", "7", "64"})
    for (const std::string work : {"1", "50"}) {
      list.push_back({"tile-composite", {{"tile", tile}, {"work", work}}});
      list.push_back({"tile-composite",
                      {{"tile", tile},
                       {"work", work},
                       {"columns", tile == "7" ? "natural" : "degree"},
                       {"tiles", work == "1" && tile != "7" ? "all" : "2"}}});
    }
  for (const std::string columns : {"3", "64"})
    for (const std::string channels : {"1", "2", "5", "16"})
      list.push_back({"vsl",
                      {{"rows", columns == "3" ? "1" : "10"},
                       {"columns", columns},
                       {"channels", channels},
                       {"pad", channels == "5" ? "3" : "8"},
                       {"max_fill", all}}});
  // Slots in tiles with rows without entries, and slots before coordinates.
  for (const std::string coo : {"tiles", "deferred"}) {
    list.push_back({"tilespmv-adpt", {{"te", "400"}, {"coo", coo}}});
    list.push_back({"tilespmv-adpt", {{"te", "0"}, {"th", "0"}, {"coo", coo}}});
  }
  list.push_back({"bcsr", {{"sizes", "2x2-4x4"}, {"max_fill", all}}});
  list.push_back({"bcsr", {{"rows", "2"}, {"max_fill", all}}});
  list.push_back({"bcsr", {{"max_fill", all}}});
  for (const std::string height : {"1", "2", "4", "8", "16"}) list.push_back({"cmrs", {{"height", height}}});
  for (const std::string panel : {"1", "7", "128"})
    for (const std::string partition : {"1", "5", "64"})
      list.push_back({"pcsr",
                      {{"panel", panel},
                       {"partition", partition},
                       {"align", panel == "7" ? "3" : "16"},
                       {"max_fill", all}}});
  for (const std::string sigma : {"1", "2", "7", "18", "32"})
    list.push_back({"csr5", {{"omega", "32"}, {"sigma", sigma}}});
  for (const std::string values : {"1", "2", "13"})
    list.push_back({"mgpu-csr", {{"threads", "128"}, {"values", values}}});
  for (const std::string align : {"1", "4", "32", "64"})
    list.push_back({"icsr", {{"align", align}, {"max_fill", all}}});
  for (const std::string bins : {"1", "3"}) list.push_back({"acsr", {{"bin_max", bins}}});
  list.push_back({"csr-stream", {{"S", "512"}}});
  for (const std::string S : {"1", "6", "100"}) list.push_back({"csr-adaptive", {{"S", S}}});
  for (const std::string format : {"balanced-csr", "vectorized-csr"})
    for (const std::string parts : {"1", "7", "64"}) list.push_back({format, {{"parts", parts}}});
  for (const std::string round : {"1", "5", "32"})
    for (const std::string ends : {"jags", "rows"})
      list.push_back({"jad", {{"round", round}, {"ends", ends}, {"max_fill", all}}});
  for (const std::string W : {"2", "4", "8", "16", "32"})
    for (const std::string sort : {"strip", "all"})
      list.push_back({"biell", {{"W", W}, {"sort", sort}, {"max_fill", all}}});
  for (const std::string chunks : {"4", "32", "64", "256"})
    for (const std::string desired : {"1", "16"})
      list.push_back({"argcsr", {{"chunks", chunks}, {"desired", desired}, {"max_fill", all}}});
  for (const std::string format : {"adell", "coadell"})
    for (const std::string W : {"2", "4", "8", "32"}) list.push_back({format, {{"W", W}, {"max_fill", all}}});
  for (const std::string blocking : {"1x1", "1x2", "2x1"})
    for (const std::string columns : {"raw", "delta16"}) {
      for (const std::string unroll : {"1", "2", "4"})
        list.push_back({"adell-plus",
                        {{"W", unroll == "1"   ? "8"
                               : unroll == "2" ? "32"
                                               : "2"},
                         {"blocking", blocking},
                         {"columns", columns},
                         {"unroll", unroll},
                         {"max_fill", all}}});
      list.push_back(
          {"adell-plus", {{"W", "4"}, {"blocking", blocking}, {"columns", columns}, {"max_fill", all}}});
    }
  for (const std::string B1 : {"4", "32"})
    for (const std::string B2 : {"1", "3", "100"})
      list.push_back({"brc", {{"B1", B1}, {"B2", B2}, {"max_fill", all}}});
  for (const std::string R : {"1", "7", "100", "4096"}) list.push_back({"btjad", {{"R", R}}});
  for (const std::string K : {"0", "1", "5", "40"}) list.push_back({"hyb", {{"K", K}}});
  list.push_back({"hyb", {{"break_even", "40"}}});
  for (const std::string h : {"1", "4", "7", "100", "4096"}) {
    list.push_back({"bro-ell", {{"h", h}, {"max_fill", all}}});
    for (const std::string K : {"0", "2", "1000"}) {
      list.push_back({"bro-hyb", {{"h", h}, {"K", K}}});
      for (const std::string sort : {"none", "length"})
        list.push_back({"bro-hybr", {{"h", h}, {"K", K}, {"sort", sort}}});
    }
  }
  for (const std::string W : {"1", "3", "8", "32"})
    for (const std::string q : {"1", "5", "32", "64"}) list.push_back({"bro-coo", {{"W", W}, {"q", q}}});
  for (const std::string p : {"1", "20"}) list.push_back({"hec", {{"p", p}}});
  for (const std::string W : {"0", "1", "6"})
    list.push_back({"csr-ell-maringanti", {{"W", W}, {"max_fill", all}}});
  for (const std::string speed : {"1", "1000"})
    for (const std::string Pt : {"0", "5"})
      list.push_back({"csr-ell-matam", {{"ell_speed", speed}, {"Pt", Pt}}});
  for (const std::string below : {"1", "4", "1024"}) list.push_back({"shec", {{"ell_below", below}}});
  for (const std::string fill : {"1", "50"}) {
    for (const std::string reach : {"0", "90"}) list.push_back({"hdc", {{"fill", fill}, {"reach", reach}}});
    list.push_back({"ell-dia", {{"fill", fill}, {"max_fill", all}}});
  }
  for (const std::string rows : {"1", "2", "3", "4"})
    for (const std::string cols : {"1", "2", "4"}) {
      const std::string tile = rows == cols ? "16" : "8";
      list.push_back({"bccoo", {{"rows", rows}, {"cols", cols}, {"tile", tile}, {"max_fill", all}}});
      list.push_back({"bccoo-plus",
                      {{"rows", rows},
                       {"cols", cols},
                       {"tile", tile},
                       {"slices", rows == "1" ? "3" : "5"},
                       {"max_fill", all},
                       {"max_fill_percent", all}}});
    }
  for (const std::string shape : {"2", "3", "4"}) {
    list.push_back({"bccoo", {{"shape", shape}, {"max_fill", all}}});
    for (const std::string slices : {"1", "4"})
      list.push_back({"bccoo-plus",
                      {{"shape", shape}, {"slices", slices}, {"max_fill", all}, {"max_fill_percent", all}}});
  }
  for (const std::string rows : {"1", "7", "256"})
    for (const std::string run : {"2", "9"})
      list.push_back({"sparsex", {{"part_rows", rows}, {"min_run", run}}});
  for (std::size_t i = 0, count = list.size(); i < count; ++i) {
    list.push_back(list[i]);
    list.back().space = Space::device;
    if (!has_kernel(list.back())) list.pop_back();
  }
  // Only hosts take these.
  for (const std::string omega : {"2", "4", "8", "16"})
    for (const std::string sigma : {"1", "5", "32"})
      list.push_back({"csr5", {{"omega", omega}, {"sigma", sigma}}});
  for (const std::string threads : {"1", "3", "125"})
    for (const std::string values : {"1", "8", "13"})
      list.push_back({"mgpu-csr", {{"threads", threads}, {"values", values}}});
  for (const std::string lanes : {"1", "3", "64"})
    list.push_back(
        {"bccoo", {{"rows", "2"}, {"cols", "2"}, {"lanes", lanes}, {"tile", "64"}, {"max_fill", all}}});
  for (const std::string C : {"1", "2", "4", "8", "16", "32", "64"})
    list.push_back(
        {"sell-c-sigma", {{"C", C}, {"sigma", "1"}, {"max_fill", all}}, Space::device, "cusparse"});
  for (const std::string C : {"1", "2", "8", "32"})
    for (const std::string sigma : {"1", "64"})
      list.push_back(
          {"sell-c-sigma", {{"C", C}, {"sigma", sigma}, {"max_fill", all}}, Space::device, "segments"});
  for (const std::string round : {"1", "16"})
    list.push_back({"jad", {{"round", round}, {"max_fill", all}}, Space::device, "staged"});
  for (const std::string R : {"2", "3", "4", "8"})
    list.push_back({"bcsr", {{"rows", R}, {"cols", R}, {"max_fill", all}}, Space::device, "cusparse"});
  for (const std::string kernel : {"thread", "row-block"})
    for (const std::string R : {"1", "2", "3", "5", "8"})
      list.push_back({"bcsr", {{"rows", R}, {"cols", R}, {"max_fill", all}}, Space::device, kernel});
  for (const std::string K : {"1", "40"})
    for (const std::string mapping : {"warp", "part", "block"})
      list.push_back({"bcsr-verschoor",
                      {{"rows", "3"}, {"cols", "3"}, {"K", K}, {"mapping", mapping}, {"max_fill", all}},
                      Space::device});
  for (const std::string T : {"1", "2", "4", "8", "16", "32"})
    list.push_back({"csr", {{"T", T}, {"block", "64"}, {"repeat", "2"}}, Space::device, "cooperative"});
  for (const std::string lanes : {"1", "32"})
    list.push_back({"csr", {{"lanes", lanes}, {"block", "64"}}, Space::device, "elzein-rendell"});
  std::erase_if(list, [](const Case& one) { return !has_kernel(one); });
  return list;
}

class Parameters : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam().space);
    if (!context_) GTEST_SKIP() << no_device;
  }

  // Kernels of libraries may refuse a matrix that the format takes, and say why. Some formats are for square matrices.
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> make(const CsrMatrix<T>& source) {
    const bool native = GetParam().kernel == "native";
    try {
      return make_matrix(find_format(GetParam().format), source, context_, GetParam().params,
                         GetParam().kernel);
    } catch (const FormatRefused& refusal) {
      if (find_format(GetParam().format).traits.square_only && source.rows() != source.cols()) return nullptr;
      EXPECT_FALSE(native) << refusal.what();
      EXPECT_NE(refusal.reason().find("cuSPARSE"), std::string::npos) << refusal.what();
      return nullptr;
    }
  }

  template <class T>
  void check(const CsrMatrix<T>& csr) {
    const FormatEntry& format = find_format(GetParam().format);
    const CsrMatrix<T> source = placed(context_, csr);
    const auto matrix = make(source);
    if (!matrix) return;
    ++built_;
    EXPECT_TRUE(identical(csr, fetched(context_, matrix->to_csr())));
    if (GetParam().kernel == "native") {
      EXPECT_EQ(matrix->bytes(), admit(format, *context_, source.pattern, matrix->params(),
                                       matrix->float_values() ? sizeof(float) : sizeof(T))
                                     .bytes);
    }

    const auto x = sample_vector<T>(csr.cols(), 1), y0 = sample_vector<T>(csr.rows(), 2);
    const Placed<T> px(context_, x);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> poison(y0.size(), nan);
    for (const T beta : {T(0), T(2)}) {
      Placed<T> y(context_, beta == T(0) ? poison : y0);
      matrix->apply(T(-1.5), px.read(), beta, y.view());
      EXPECT_TRUE(product_is_right(csr, T(-1.5), x, beta, y0, y.fetch())) << "beta " << beta;
    }

    const std::int64_t n = std::min(csr.rows(), csr.cols());
    std::vector<T> expected(n);
    extract_diagonal(*test_context(), csr, expected.data());
    Placed<T> found(context_, std::vector<T>(n, nan));
    matrix->diagonal(found.view());
    EXPECT_EQ(expected, found.fetch());

    if (csr.rows() == csr.cols()) {
      Placed<T> product(context_, poison), result(context_, {nan});
      apply_dot<T>(*matrix, px.read(), product.view(), result.data());
      const std::vector<T> y = product.fetch();
      EXPECT_TRUE(product_is_right(csr, T(1), x, T(0), y0, y)) << "apply_dot";
      long double sum = 0, magnitude = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += static_cast<long double>(x[i]) * y[i],
            magnitude += std::fabs(static_cast<long double>(x[i]) * y[i]);
      EXPECT_LE(std::fabs(result.fetch()[0] - sum),
                (csr.rows() + 2) * std::numeric_limits<T>::epsilon() * magnitude);
    }

    CsrMatrix<T> changed = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<T*>(changed.values)[k] = T(k % 3);
    matrix->update_values(placed(context_, changed));
    EXPECT_TRUE(identical(changed, fetched(context_, matrix->to_csr())));
  }

  ContextPtr context_;
  int built_ = 0;
};

TEST_P(Parameters, KeepTheContract) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    check<double>(entry.matrix);
    check<float>(convert_values<float>(test_context(), entry.matrix));
  }
  EXPECT_GE(built_, 2);
}

// Enough rows for the large grids of the products, which no matrix of the battery has.
class LargeOnDevice : public Parameters {
 protected:
  void SetUp() override {
    for (const Kernel& kernel : kernels_in(find_format(GetParam().format), Space::device))
      if (kernel.name == GetParam().kernel && !kernel.unavailable.empty()) GTEST_SKIP() << kernel.unavailable;
    Parameters::SetUp();
  }
};

TEST_P(LargeOnDevice, KeepsTheContract) {
  check<double>(generate(test_context(), "banded", {{"n", 4400000}, {"lower", 1}, {"upper", 0}}));
}

// The same matrix with 64-bit row pointers, which a matrix of 2^31 entries or more has.
template <class T>
CsrMatrix<T> with_wide_pointers(const CsrMatrix<T>& csr) {
  CsrBuilder<T> builder(test_context(), csr.rows(), csr.cols(), csr.nonzeros(), true);
  for (std::int64_t r = 0; r <= csr.rows(); ++r) builder.set_row_ptr(r, csr.pattern.row_ptr[r]);
  std::copy_n(csr.pattern.col, csr.nonzeros(), builder.col());
  std::copy_n(csr.values, csr.nonzeros(), builder.values());
  return builder.freeze();
}

// Large enough for rows and entries of several blocks of threads; the matrices of the battery are not.
TEST_P(LargeOnDevice, TakesWideRowPointersOrSaysWhyNot) {
  for (const auto& [kind, params] : {std::pair<const char*, GeneratorParams>{"poisson-3d", {{"n", 24}}},
                                     {"elasticity-3d", {{"n", 9}}},
                                     {"random-spd", {{"n", 9000}, {"degree", 7}}}}) {
    SCOPED_TRACE(kind);
    const CsrMatrix<double> csr = with_wide_pointers(generate(test_context(), kind, params));
    ASSERT_EQ(csr.pattern.row_ptr.width(), 8);
    check<double>(csr);
  }
}

std::vector<Case> device_defaults() {
  std::vector<Case> list;
  for (const FormatEntry* format : layouts_of_any_matrix())
    for (const Kernel& kernel : kernels_in(*format, Space::device)) {
      list.push_back({std::string(format->id), {}, Space::device, std::string(kernel.name)});
      for (const ParamDoc& param : format->params)
        if (param.name.starts_with("max_fill"))
          list.back().params.set(std::string(param.name), param.largest);
    }
  return list;
}

const auto case_name = [](const auto& instance) {
  std::string name = instance.param.format + "_" + instance.param.kernel;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
};

// Conditions of cuSPARSE that our formats do not have lead to a refusal, with the reason and what to do.
TEST(CusparseConditions, AreRefusalsThatSayWhatToDo) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const auto refusal = [&](const char* format, const FormatParams& params, const CsrMatrix<double>& csr) {
    try {
      make_matrix(find_format(format), upload(context, csr), context, params, "cusparse");
    } catch (const FormatRefused& refused) { return refused.reason(); }
    return std::string("was built");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const CsrMatrix<double> band = generate(test_context(), "banded", {{"n", 64}, {"lower", 2}, {"upper", 2}});
  has(refusal("sell-c-sigma", {{"sigma", "64"}}, band), "set sigma to 1");
  has(refusal("sell-c-sigma", {{"sigma", "1"}}, band), "was built");
  has(refusal("bcsr", {{"rows", "2"}, {"cols", "4"}}, band), "set rows and cols to one number");
  has(refusal("bcsr", {{"rows", "1"}, {"cols", "1"}}, band), "too small");
  has(refusal("bcsr", {{"rows", "3"}, {"cols", "3"}}, band), "stick out");
  has(refusal("bcsr", {{"rows", "2"}, {"cols", "2"}}, band), "was built");
  for (const char* format : {"csr", "csc"}) has(refusal(format, {}, with_wide_pointers(band)), "64-bit");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeOnDevice);
INSTANTIATE_TEST_SUITE_P(Formats, LargeOnDevice, testing::ValuesIn(device_defaults()), case_name);

INSTANTIATE_TEST_SUITE_P(Formats, Parameters, testing::ValuesIn(cases()), [](const auto& instance) {
  std::string name = instance.param.format + "_" + std::string(to_string(instance.param.space));
  if (instance.param.kernel != "native") name += "_" + instance.param.kernel;
  for (const auto& [key, value] : instance.param.params.all()) name += "_" + key + value;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace protean::test
