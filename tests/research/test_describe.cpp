// Descriptions of formats: what the parser refuses and where, what the conversion checks, and the arrays that it makes.
#include <string>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "research/describe/convert.hpp"
#include "research/describe/generate.hpp"
#include "research/describe/tune.hpp"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using namespace research;
using Numbers = std::vector<double>;

Description described(const std::string& name, const Sizes& sizes = {}) {
  return with_sizes(parse_description(description_text(name), name), sizes);
}
Converted converted(const Description& d, const CsrMatrix<double>& matrix, bool turned = false) {
  return convert(d, plan(d), matrix, turned);
}

// The array of a description by name.
Numbers array_of(const Description& d, const Converted& c, std::string_view name) {
  for (std::size_t a = 0; a < d.arrays.size(); ++a)
    if (d.arrays[a].name == name)
      return d.arrays[a].kind == Array::Kind::values ? c.values[a]
                                                     : Numbers(c.index[a].begin(), c.index[a].end());
  ADD_FAILURE() << "no array " << name;
  return {};
}

// ---- the parser

struct Wrong {
  const char* name;
  std::string text;
  int line;
  const char* says;
};
const std::string head = "format f\nvalues v[nonzeros]\n";
const std::string csr_head =
    "format f\nscan q[p < rows] = length(p)\nindex c[nonzeros]\nvalues v[nonzeros]\n";
const Wrong wrong_texts[] = {
    {"empty", "# nothing\n", 1, "empty"},
    {"no_format", "size C = 2\n", 1, "first line must be `format NAME`"},
    {"two_formats", "format a\nformat b\n", 2, "second `format`"},
    {"no_loop", "format a\n", 1, "there is no loop"},
    {"letter", "format a\nlet b = rows & 1\n", 2, "has no '&'"},
    {"tab", "format a\n\tlet b = 1\n", 2, "tabs"},
    {"indented", "format a\n  let b = 1\n", 2, "top level is indented"},
    {"unknown_line", "format a\nloop p\n", 2, "begins no line of the top level"},
    {"unknown_name", "format a\nlet b = rowz\n", 2, "there is no 'rowz'"},
    {"unknown_function", "format a\nlet b = floor(rows)\n", 2, "there is no function 'floor'"},
    {"word_of_language", "format a\nlet x = rows\n", 2, "a word of the language"},
    {"twice", "format a\nlet b = rows\nlet b = cols\n", 3, "already a 'b'"},
    {"size_0", "format a\nsize C = 0\n", 2, "from 1 to"},
    {"size_none_of_its_choices", "format a\nsize C = 3 of 2 4\n", 2, "none of its choices"},
    {"large_number", "format a\nlet b = 1234567890\n", 2, "above 999,999,999"},
    {"open_bracket", "format a\nlet b = (rows\n", 2, "')' is expected here, where the line ends"},
    {"too_much", "format a\nlet b = rows cols\n", 2, "'cols' is too much"},
    {"late_order", "format a\nlet b = rows\norder by length\n", 3, "stands once, before"},
    {"plain_outer", head + "for p in 0 .. rows\n  y[p] += v[p] * x[p]\n", 3,
     "the outermost loop is `parallel`"},
    {"no_body", head + "for p in 0 .. rows parallel\n", 3, "the loop has no body"},
    {"no_product", head + "for p in 0 .. rows parallel\n  let q = p\n", 4, "must end with another loop"},
    {"uneven", head + "for p in 0 .. rows parallel\n  let q = p\n    y[q] += v[p] * x[p]\n", 5,
     "indented otherwise"},
    {"after_product", head + "for p in 0 .. rows parallel\n  y[p] += v[p] * x[p]\n  let q = p\n", 5,
     "are the last"},
    {"no_array", head + "for p in 0 .. rows parallel\n  y[p] += w[p] * x[p]\n", 4, "there is no array 'w'"},
    {"index_as_value", csr_head + "for p in 0 .. rows parallel\n  y[p] += c[p] * x[p]\n", 6,
     "declared as values"},
    {"conversion_in_kernel", csr_head + "for p in 0 .. rows parallel\n  y[p] += v[length(p)] * x[p]\n", 6,
     "the product is computed by the kernel"},
    {"find_in_range", csr_head + "for p in 0 .. find(q, 1) parallel\n  y[p] += v[p] * x[p]\n", 5,
     "the range of a loop is computed by the kernel"},
    {"store_computed", csr_head + "for p in 0 .. rows parallel\n  entry 0 of p\n  store q[p] = 1\n", 7,
     "only arrays that are declared"},
    {"value_into_index", csr_head + "for p in 0 .. rows parallel\n  entry 0 of p\n  store c[p] = value\n", 7,
     "an index array holds no values"},
    {"index_into_value", csr_head + "for p in 0 .. rows parallel\n  entry 0 of p\n  store v[p] = column\n", 7,
     "holds `value`, and nothing else"},
    {"two_indices", csr_head + "for p in 0 .. rows parallel\n  y[p] += v[p, 0] * x[p]\n", 6, "has 1 index"},
    {"parallel_in_plain",
     head + "for p in 0 .. rows parallel\n  for k in 0 .. 2\n    for j in 0 .. 2 parallel\n      y[p] += "
            "v[p] * x[p]\n",
     5, "mark the outer loops"},
};

class WrongText : public testing::TestWithParam<Wrong> {};
TEST_P(WrongText, IsRefusedWithItsLine) {
  try {
    parse_description(GetParam().text, "wrong.txt");
    FAIL() << "it was read";
  } catch (const BadFile& error) {
    EXPECT_EQ(error.line(), GetParam().line) << error.what();
    EXPECT_GT(error.column(), 0);
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("wrong.txt"), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Describe, WrongText, testing::ValuesIn(wrong_texts),
                         [](const auto& of) { return of.param.name; });

TEST(Describe, DeepBracketsAreRefused) {
  std::string text = "format a\nlet b = ";
  for (int i = 0; i < 5000; ++i) text += "(";
  EXPECT_THROW(parse_description(text, "deep.txt"), BadFile);
}

TEST(Describe, LongLinesAreRefused) {
  std::string text = "format a\nlet b = 1";
  for (int i = 0; i < 100000; ++i) text += " + 1";
  EXPECT_THROW(parse_description(text, "long.txt"), BadFile);
}

TEST(Describe, UnknownNamesOfDescriptionsAreRefusedWithTheList) {
  try {
    description_text("no-such");
    FAIL();
  } catch (const BadFile& error) {
    EXPECT_NE(std::string(error.what()).find("sell-c-sigma"), std::string::npos) << error.what();
  }
}

TEST(Describe, SizesMustExist) {
  EXPECT_THROW(described("csr", {{"C", 4}}), BadArgument);
  EXPECT_THROW(described("sell", {{"C", 0}}), BadArgument);
  EXPECT_THROW(described("sell", {{"sigma", 4}}), BadArgument);
}

// ---- what the conversion checks

const Wrong wrong_formats[] = {
    {"outside",
     csr_head + "for p in 0 .. rows parallel\n  for e in q[p + 8] .. q[p + 1]\n    entry e - q[p] of p\n"
                "    store v[e] = value\n    y[p] += v[e] * x[c[e]]\n",
     6, "q is read or stored at 9; it ends at 8"},
    {"one_entry_a_row",
     csr_head + "for p in 0 .. rows parallel\n  entry 0 of p\n  store v[p] = value\n"
                "  store c[p] = column\n  y[p] += v[p] * x[c[p]]\n",
     5, "no point of the loops multiplies the entry in row 0, column 1"},
    {"wrong_column",
     csr_head + "for p in 0 .. rows parallel\n  for e in q[p] .. q[p + 1]\n    entry e - q[p] of p\n"
                "    store v[e] = value\n    store c[e] = 0\n    y[p] += v[e] * x[c[e]]\n",
     10, "which is not where the matrix has it"},
    {"wrong_row",
     csr_head + "for p in 0 .. rows parallel\n  for e in q[p] .. q[p + 1]\n    entry e - q[p] of p\n"
                "    store v[e] = value\n    store c[e] = column\n    y[0] += v[e] * x[c[e]]\n",
     10, "which is not where the matrix has it"},
    {"not_parallel",
     "format f\nscan q[p < rows] = length(p)\nindex r[nonzeros]\nindex c[nonzeros]\nvalues v[nonzeros]\n"
     "for e in 0 .. nonzeros parallel\n  let p = find(q, e)\n  entry e - q[p] of p\n  store r[e] = row\n"
     "  store c[e] = column\n  store v[e] = value\n  y[r[e]] += v[e] * x[c[e]]\n",
     6, "write `shared` in place of `parallel`"},
    {"twice",
     csr_head + "for p in 0 .. rows parallel\n  for t in 0 .. 2\n    for e in q[p] .. q[p + 1]\n"
                "      entry e - q[p] of p\n      store v[e] = value\n      store c[e] = column\n"
                "      y[p] += v[e] * x[c[e]]\n",
     11, "is multiplied twice"},
    {"one_place",
     csr_head + "for p in 0 .. rows parallel\n  for e in q[p] .. q[p + 1]\n    entry e - q[p] of p\n"
                "    store v[0] = value\n    store c[e] = column\n    y[p] += v[0] * x[c[e]]\n",
     8, "holds two entries in one place"},
    {"not_stored",
     csr_head + "for p in 0 .. rows parallel\n  for e in q[p] .. q[p + 1]\n    entry e - q[p] of p\n"
                "    store c[e] = column\n    y[p] += v[e] * x[c[e]]\n",
     9, "read where nothing was stored"},
    {"no_entry", csr_head + "for p in 0 .. rows parallel\n  store v[p] = value\n  y[p] += v[p] * x[0]\n", 6,
     "stands before `entry`"},
    {"row_outside",
     csr_head + "for p in 0 .. rows + 1 parallel\n  for e in q[min(p, rows)] .. q[min(p + 1, rows)]\n"
                "    entry e - q[p] of p\n    store v[e] = value\n"
                "    store c[e] = column\n    y[p] += v[e] * x[c[e]]\n",
     10, "y[8] is written; y has 8 rows"},
    {"no_position",
     "format f\nindex l[p < rows + 1] = length(p)\nvalues v[nonzeros]\nfor p in 0 .. rows parallel\n"
     "  y[p] += v[p] * x[p]\n",
     2, "position 8 is asked for"},
    {"divided_by_0",
     "format f\nlet a = rows / (rows - 8)\nvalues v[nonzeros]\nfor p in 0 .. rows parallel\n"
     "  y[p] += v[p] * x[p]\n",
     2, "divided by 0"},
    {"beyond_64_bits",
     "format f\nlet a = 999999999 * 999999999 * 999999999\nvalues v[nonzeros]\nfor p in 0 .. rows parallel\n"
     "  y[p] += v[p] * x[p]\n",
     2, "beyond 2^63"},
    {"too_large",
     "format f\nvalues v[nonzeros * 999999999]\nfor p in 0 .. rows parallel\n  y[p] += v[p] * x[p]\n", 2,
     "it may have 0 to 2147483647"},
    {"dependent_parallel",
     head + "for p in 0 .. rows parallel\n  for k in 0 .. p parallel\n    y[k] += v[p] * x[p]\n", 4,
     "mark the outer one only"},
    {"many_sums",
     head + "for p in 0 .. rows parallel\n  for k in 0 .. 65\n    y[p * 65 + k] += v[p] * x[p]\n", 3,
     "at most 64"},
};
class WrongFormat : public testing::TestWithParam<Wrong> {};
TEST_P(WrongFormat, IsFoundByTheConversion) {
  const Description d = parse_description(GetParam().text, "wrong.txt");
  try {
    converted(d, t8());
    FAIL() << "it was converted";
  } catch (const BadFile& error) {
    EXPECT_EQ(error.line(), GetParam().line) << error.what();
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Describe, WrongFormat, testing::ValuesIn(wrong_formats),
                         [](const auto& of) { return of.param.name; });

// ---- arrays

TEST(Describe, EllOnT8) {
  const Description d = described("ell");
  const Numbers by_rows = array_of(d, converted(d, t8()), "val"),
                by_columns = array_of(d, converted(d, t8(), true), "val");
  ASSERT_EQ(by_rows.size(), 64u);
  EXPECT_EQ(Numbers(by_rows.begin(), by_rows.begin() + 8), (Numbers{11, 12, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Numbers(by_columns.begin(), by_columns.begin() + 8), (Numbers{11, 22, 34, 0, 51, 61, 77, 84}));
}

TEST(Describe, JadOnT8) {
  const Description d = described("jad");
  const Converted c = converted(d, t8());
  EXPECT_EQ(array_of(d, c, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, 3}));
  EXPECT_EQ(array_of(d, c, "start"), (Numbers{0, 7, 13, 17, 19, 21, 22, 23, 24}));
  EXPECT_EQ(array_of(d, c, "val").size(), 24u);
}

TEST(Describe, HybOnT8) {
  const Description d = described("hyb", {{"K", 2}});
  const Converted c = converted(d, t8());
  EXPECT_EQ(array_of(d, c, "ell").size(), 16u);
  EXPECT_EQ(array_of(d, c, "rest").size(), 11u);
}

// The arrays of a description equal the arrays of the library's own format of this name.
struct Same {
  const char *description, *format;
  Sizes sizes;
  FormatParams params;
  bool turned;
  std::vector<std::pair<const char*, const char*>> arrays;  // of the description, of the format
};
TEST(Describe, ArraysAreThoseOfTheLibrarysFormats) {
  const std::vector<Same> all = {
      {"csr", "csr", {}, {}, false, {{"row_ptr", "row_ptr"}, {"col", "col"}, {"val", "values"}}},
      {"coo", "coo", {}, {}, false, {{"row_of", "row"}, {"col", "col"}, {"val", "values"}}},
      {"csc", "csc", {}, {}, false, {{"col_ptr", "col_ptr"}, {"row_of", "row"}, {"val", "values"}}},
      {"ell", "ell", {}, {{"align", "1"}, {"max_fill", "1000"}}, true, {{"col", "col"}, {"val", "values"}}},
      {"sell-c-sigma",
       "sell-c-sigma",
       {{"C", 4}, {"sigma", 8}},
       {{"C", "4"}, {"sigma", "8"}, {"max_fill", "1000"}},
       false,
       {{"start", "slice_ptr"}, {"perm", "perm"}, {"col", "col"}, {"val", "values"}}},
      {"dia", "dia", {}, {{"max_fill", "1000"}}, false, {{"offset", "off"}, {"val", "values"}}},
      {"bcsr",
       "bcsr",
       {{"R", 2}, {"C", 4}},
       {{"rows", "2"}, {"cols", "4"}, {"max_fill", "1000"}},
       false,
       {{"block_ptr", "block_ptr"}, {"block_col", "block_col"}, {"val", "values"}}}};
  // As many rows as slices and blocks divide, since formats of the library fill up the last one.
  for (const CsrMatrix<double>& matrix : {t8(), battery_matrix("identity_33")})
    for (const Same& same : all) {
      if (matrix.rows() % 8 != 0 && same.description != std::string("csr") &&
          same.description != std::string("coo"))
        continue;
      SCOPED_TRACE(same.description);
      const Description d = described(same.description, same.sizes);
      const Converted c = converted(d, matrix, same.turned);
      const auto made = build(same.format, matrix, same.params);
      for (const auto& [ours, theirs] : same.arrays)
        EXPECT_EQ(array_of(d, c, ours), layout_numbers(*made, theirs)) << ours;
    }
}

// ---- the plan

TEST(Describe, SumsOfABlockRowStayUntilItsEnd) {
  const Description d = described("bcsr", {{"R", 3}, {"C", 2}});
  const std::vector<Nest> nests = plan(d);
  ASSERT_EQ(nests.size(), 1u);
  EXPECT_EQ(nests[0].count, 3);
  EXPECT_EQ(nests[0].base, 0);
  EXPECT_EQ(nests[0].split, 1);  // the loop over blocks
  EXPECT_EQ(nests[0].parallel, 1);
}

TEST(Describe, BetaIsTakenAlongWhereEachRowIsWrittenOnce) {
  for (const auto& [name, once] :
       {std::pair{"csr", true}, std::pair{"sell", true}, std::pair{"bcsr", true}, std::pair{"coo", false},
        std::pair{"csc", false}, std::pair{"hyb", true}}) {
    const Description d = described(name);
    EXPECT_EQ(converted(d, t8()).writes_each_row_once[0], once) << name;
  }
}

// ---- generated text

TEST(Describe, TheTextOfCsr) {
  const Description d = described("csr");
  const std::string text = generated_source(d, plan(d), {}, Target::host, false);
  EXPECT_NE(text.find(R"(  for (integer v_p = begin; v_p < end; ++v_p) {
    real sum[1] = {};
    for (integer v_e = a_row_ptr[v_p]; v_e < a_row_ptr[v_p + 1]; ++v_e) {
      sum[0] += a_val[v_e] * x[a_col[v_e]];
    }
    const integer row = v_p;
    const real product = alpha * sum[0];
    y[row] = !once ? y[row] + product : beta == 0 ? product : product + beta * y[row];
  }
)"),
            std::string::npos)
      << text;
}

// Lanes of a GPU share the loop over blocks, not the one over rows of a block, and add up their sums.
TEST(Describe, TheTextOfBcsrForLanes) {
  const Description d = described("bcsr");
  Strategy strategy;
  strategy.lanes = 8;
  const std::string text = generated_source(d, plan(d), strategy, Target::cuda, false);
  EXPECT_NE(text.find("for (integer v_k = a_block_ptr[v_i] + lane; v_k < a_block_ptr[v_i + 1]; v_k += 8) {"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("real sum[2] = {};"), std::string::npos);
  EXPECT_NE(text.find("__shfl_down_sync(group, sum[s], step, 8)"), std::string::npos);
}

TEST(Describe, StrategiesAreChecked) {
  const Description d = described("csr");
  const auto source = [&](const Strategy& s) { return generated_source(d, plan(d), s, Target::cuda, false); };
  EXPECT_THROW(source({false, 0, 1, 256, 1}), BadArgument);
  EXPECT_THROW(source({false, 1, 3, 256, 1}), BadArgument);
  EXPECT_THROW(source({false, 1, 64, 256, 1}), BadArgument);
  EXPECT_THROW(source({false, 1, 1, 100, 1}), BadArgument);
  EXPECT_THROW(source({false, 1, 1, 256, 0}), BadArgument);
}

// ---- the tuner

TEST(Describe, CandidatesAreAllThatDiffer) {
  EXPECT_EQ(candidates(described("csr"), Target::host).size(), 2u);            // unroll
  EXPECT_EQ(candidates(described("coo"), Target::host).size(), 1u);            // no inner loop
  EXPECT_EQ(candidates(described("ell"), Target::host).size(), 4u);            // and tables turned
  EXPECT_EQ(candidates(described("sell-c-sigma"), Target::host).size(), 24u);  // 4 C, 3 sigma
  EXPECT_EQ(candidates(described("csr"), Target::cuda).size(), 2u * 4 * 2);    // lanes, threads
  EXPECT_EQ(candidates(described("coo"), Target::cuda).size(), 2u * 3);        // threads, chunks
}

TEST(Describe, TheFirstOfTheLeastTimeIsTheBest) {
  const std::vector<Candidate> all = candidates(described("ell"), Target::host);
  const double seconds[] = {3, 1, 1, 2};
  std::size_t next = 0;
  const Tuned tuned = tune(all, [&](const Candidate&) {
    if (next == 0) {
      ++next;
      throw BadFile("f", 1, 0, "no");
    }
    return seconds[next++];
  });
  ASSERT_TRUE(tuned.best.has_value());
  EXPECT_EQ(*tuned.best, 1u);
  EXPECT_NE(tuned.tried[0].refused, "");
  EXPECT_THROW(tune(all, [](const Candidate&) -> double { throw NotAvailable("no compiler"); }),
               NotAvailable);
}

}  // namespace
}  // namespace protean::test
