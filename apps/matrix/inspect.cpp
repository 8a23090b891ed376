#include "apps/matrix/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/command/lists.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/input.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/json.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "core/error.hpp"
#include "core/io/input_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/locality.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"
#include "core/row_sizes.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"

namespace protean::apps {
namespace {

// The number of rows by length: bin 0 has the empty rows, bin k the rows of 2^(k-1) to 2^k - 1 entries.
std::vector<std::int64_t> length_histogram(const SparsityPattern& pattern) {
  std::vector<std::int64_t> bins;
  for (std::int64_t row = 0; row < pattern.rows; ++row) {
    std::size_t bin = 0;
    for (std::int64_t length = pattern.row_length(row); length > 0; length >>= 1) ++bin;
    if (bins.size() <= bin) bins.resize(bin + 1);
    ++bins[bin];
  }
  return bins;
}

std::string bin_name(std::size_t bin) {
  const std::int64_t end = std::int64_t{1} << bin, begin = end / 2;  // 0: 0 .. 0, 1: 1 .. 1, 2: 2 .. 3
  return end - begin <= 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1);
}

// The number of entries in each cell of a coarse grid over the matrix.
struct Picture {
  std::int64_t rows = 0, cols = 0;
  std::vector<std::int64_t> counts;
};

Picture picture_of(const SparsityPattern& pattern, std::int64_t most_rows, std::int64_t most_cols) {
  Picture picture{std::min(pattern.rows, most_rows), std::min(pattern.cols, most_cols), {}};
  picture.counts.assign(static_cast<std::size_t>(picture.rows * picture.cols), 0);
  std::vector<std::int32_t> cell(static_cast<std::size_t>(pattern.cols));
  for (std::int64_t col = 0; col < pattern.cols; ++col)
    cell[static_cast<std::size_t>(col)] = static_cast<std::int32_t>(col * picture.cols / pattern.cols);
  for (std::int64_t row = 0; row < pattern.rows; ++row) {
    std::int64_t* const line = picture.counts.data() + row * picture.rows / pattern.rows * picture.cols;
    for (const std::int32_t col : pattern.row(row)) ++line[cell[static_cast<std::size_t>(col)]];
  }
  return picture;
}

// A picture of Braille characters, each of which shows 4 x 2 cells. An ordered dither sets more dots where
// the cells have more entries. A character with an entry has at least one dot.
std::string braille(const Picture& picture) {
  constexpr unsigned bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  constexpr int dither[4][2] = {{0, 4}, {6, 2}, {1, 5}, {7, 3}};
  const auto most = static_cast<double>(*std::max_element(picture.counts.begin(), picture.counts.end()));
  std::string text;
  for (std::int64_t top = 0; top < picture.rows; top += 4) {
    text += "  ";
    for (std::int64_t left = 0; left < picture.cols; left += 2) {
      unsigned dots = 0, densest = 0;
      std::int64_t densest_count = 0;
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) {
          if (top + i >= picture.rows || left + j >= picture.cols) continue;
          const std::int64_t count =
              picture.counts[static_cast<std::size_t>((top + i) * picture.cols + left + j)];
          if (count > densest_count) densest = bit[i][j], densest_count = count;
          // The cube root makes differences visible within a sparse part next to a dense one.
          if (std::cbrt(static_cast<double>(count) / most) * 8 > dither[i][j] + 0.5) dots |= bit[i][j];
        }
      dots |= densest;
      // U+2800 + dots in UTF-8
      text += '\xe2';
      text += static_cast<char>(0xa0 | (dots >> 6));
      text += static_cast<char>(0x80 | (dots & 0x3f));
    }
    text += '\n';
  }
  return text;
}

// Of a_ii, i < min(rows, cols); zero: also those without an entry.
struct DiagonalSigns {
  std::int64_t positive = 0, negative = 0, zero = 0;
  std::int64_t all() const { return positive + negative + zero; }
};

DiagonalSigns diagonal_signs(const Context& context, const CsrMatrix<double>& csr) {
  std::vector<double> diagonal(static_cast<std::size_t>(std::min(csr.rows(), csr.cols())));
  extract_diagonal(context, csr, diagonal.data());
  DiagonalSigns signs;
  for (const double a : diagonal) ++(a > 0 ? signs.positive : a < 0 ? signs.negative : signs.zero);
  return signs;
}

// "all positive"; the advice is for cg.
std::string sign_text(const DiagonalSigns& signs) {
  if (signs.all() == 0) return "no entries";
  if (signs.positive == signs.all()) return "all positive";
  if (signs.negative == signs.all()) return "all negative (for cg: matrix.scale: -1)";
  return fmt::format("{} positive, {} negative, {} zero or missing", grouped(signs.positive),
                     grouped(signs.negative), grouped(signs.zero));
}

struct Row {
  const FormatEntry* entry = nullptr;
  Admission admission;
};

// The matrix in another order of its rows and columns.
struct OrderRow {
  std::string_view id, why;  // why: it is not in this build
  double seconds = 0;
  Locality locality;
};

struct Inspection {
  std::string name;
  Statistics statistics;
  double asymmetry = 0;
  NullVectors null_vectors;
  DiagonalSigns signs;
  detail::RowSizes row_sizes;
  double tolerance = 0;          // relative; rows below it are hidden by the largest
  Locality locality;             // of the order that it has
  std::vector<OrderRow> orders;  // empty for a rectangular matrix
  OrderForecast forecast;
  std::vector<std::int64_t> lengths;
  Picture picture;
  std::vector<Row> formats;
  std::size_t left_out = 0;  // formats that are not on the shortlist
  FormatChoice choice;
  MeasuredRoof roof;  // of the host, from the machine table; 0: it has none
  double seconds = 0;
};

bool is_problem(const std::string& file) {
  const bool named = file.ends_with(".yaml") || file.ends_with(".yml");
  return named || (io_detail::kind_of(file) != io_detail::FileKind::missing && !is_matrix_file(file));
}

// What the problem says of the choice of format auto and of the tolerance.
struct InspectQuestion {
  ChoiceOptions choice;
  double tolerance = StoppingRule{}.relative_tolerance;
};

CsrMatrix<double> matrix_of(const InspectArguments& arguments, const ContextPtr& host, std::string& name,
                            InspectQuestion& question) {
  if (!is_problem(arguments.input)) {
    if (!arguments.settings.empty())
      throw BadArgument("--set overrides keys of a problem file; this is a matrix");
    CommandFiles files;
    files.reads("the matrix", arguments.input);
    files.require_inputs();
    name = arguments.input;
    return read_matrix(host, arguments.input, {});
  }
  const Problem problem = read_problem(arguments.input, arguments.settings);
  CommandFiles files;
  files.reads(problem);
  files.require_inputs();
  name = problem.matrix.file ? problem.matrix.file.given : problem.matrix.kind;
  question = {choice_options(problem, Space::host), problem.settings.solver.stopping.relative_tolerance};
  return make_matrix_data(host, problem.matrix);
}

// Whether the entries of each row add up to zero within rounding, so that A x = 0 for x of equal entries.
OrderRow order_row(const Context& host, const SparsityPattern& pattern, const OrderingEntry& ordering) {
  OrderRow row{ordering.id, ordering.unavailable, 0, {}};
  if (!row.why.empty()) return row;
  const Clock clock;
  const std::vector<std::int32_t> order = make_order(ordering.id, host, pattern);
  row.seconds = clock.total();
  std::vector<std::int32_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<std::int32_t>(k);
  row.locality = locality(host, pattern, order, place);
  return row;
}

// `formats` is the value of --formats.
Inspection inspect_matrix(const ContextPtr& host, const CsrMatrix<double>& csr, const std::string& formats,
                          const InspectQuestion& question) {
  ChoiceOptions options = question.choice;
  Inspection result;
  result.tolerance = question.tolerance;
  const Clock clock;
  result.statistics = statistics(*host, csr.pattern);
  const bool square = csr.rows() == csr.cols();
  result.locality = locality(*host, csr.pattern);
  if (square) {
    result.forecast = forecast_order(csr.pattern, sizeof(double));
    for (const OrderingEntry& ordering : orderings())
      result.orders.push_back(order_row(*host, csr.pattern, ordering));
  }
  // Two threads compute the serial results.
  const ContextPtr alone = Context::host(1);
  parallel(std::min(host->threads(), 2), [&](int part, int parts) {
    if (part == 0) {
      result.lengths = length_histogram(csr.pattern);
      result.picture = picture_of(csr.pattern, 96, 128);
    }
    if (part == parts - 1) {
      result.signs = diagonal_signs(*alone, csr);
      result.row_sizes = detail::row_sizes(*alone, csr, question.tolerance);
      result.asymmetry = square ? asymmetry(*alone, csr) : 0;
      result.null_vectors = null_vectors(*alone, csr);
    }
  });
  const ChosenMachine machine = choose_machine({});
  if (const MeasuredRoof* const roof = machine.roof(Space::host)) result.roof = *roof;
  const CostModel model = machine.model(Space::host);
  options.machine = machine.table();
  options.symmetric = square && !first_asymmetry(*host, csr.pattern, csr.values);
  result.choice = choose_format(csr.pattern, model, options);
  for (const FormatEntry* entry :
       formats.empty() ? shortlist(rank_formats(csr.pattern, model, options)) : formats_named(formats))
    result.formats.push_back({entry, admit(*entry, *host, csr.pattern, {}, sizeof(double))});
  if (formats.empty()) result.left_out = catalogue().size() - result.formats.size();
  result.seconds = clock.total();
  return result;
}

std::string symmetry(const Inspection& i) {
  if (i.statistics.rows != i.statistics.cols) return "rectangular";
  if (i.asymmetry == 0)
    return i.statistics.structurally_symmetric ? "symmetric" : "symmetric; zeros are stored on one side only";
  const bool rounding = i.asymmetry <= symmetry_tolerance<double>;
  return fmt::format("{}, {}: entries differ by up to {:.2g} of the largest of their rows",
                     rounding ? "symmetric up to rounding" : "not symmetric",
                     i.statistics.structurally_symmetric ? "pattern symmetric" : "pattern not symmetric",
                     i.asymmetry);
}

std::string sizes_text(const Inspection& i) {
  const detail::RowSizes& sizes = i.row_sizes;
  std::string text = fmt::format("{:.3g} to {:.3g}   sum |a_ij|", sizes.smallest, sizes.largest);
  if (sizes.below > 0)
    text += fmt::format(
        "; {} of {} rows are below {:.3g} of the largest: a 2-norm of b - A x may hide them\n{:26}(solve "
        "with solver.residual_norm: diagonal)",
        grouped(sizes.below), grouped(sizes.rows), i.tolerance, "");
  return text;
}

std::int64_t bandwidth(const Statistics& s) { return std::max(s.lower_bandwidth, s.upper_bandwidth); }

// GFLOPS of a product that reads the matrix in csr and x and y once each, if the bandwidth bounds it.
double roof_gflops(const Statistics& s, double bandwidth) {
  const double entries = static_cast<double>(s.nonzeros),
               bytes = s.features.memory_footprint_mib * 1048576 + 8 * static_cast<double>(s.rows + s.cols);
  return 2 * entries / bytes * bandwidth * 1e-9;
}

Json to_json(const Inspection& i) {
  const Statistics& s = i.statistics;
  Json json = Json::object();
  json["matrix"] = i.name;
  json["rows"] = s.rows, json["cols"] = s.cols, json["nonzeros"] = s.nonzeros;
  json["features"] = {{"memory_footprint_mib", s.features.memory_footprint_mib},
                      {"mean_row_length", s.features.mean_row_length},
                      {"skew", s.features.skew},
                      {"cross_row_similarity", s.features.cross_row_similarity},
                      {"neighbours", s.features.neighbours}};
  json["row_length"] = {{"mean", s.mean},         {"deviation", s.deviation},   {"longest", s.longest},
                        {"shortest", s.shortest}, {"empty_rows", s.empty_rows}, {"histogram", Json::array()}};
  for (std::size_t bin = 0; bin < i.lengths.size(); ++bin)
    json["row_length"]["histogram"].push_back({{"lengths", bin_name(bin)}, {"rows", i.lengths[bin]}});
  json["structure"] = {
      {"structurally_symmetric", s.structurally_symmetric},
      {"asymmetry", number(i.asymmetry)},
      {"full_diagonal", s.full_diagonal},
      {"zero_row_sums", i.null_vectors.all},
      {"null_vectors", in_words(i.null_vectors)},
      {"diagonal_signs",
       {{"positive", i.signs.positive}, {"negative", i.signs.negative}, {"zero", i.signs.zero}}},
      {"row_sizes",
       {{"smallest", number(i.row_sizes.smallest)},
        {"largest", number(i.row_sizes.largest)},
        {"tolerance", i.tolerance},
        {"below_tolerance", i.row_sizes.below}}},
      {"diagonals", s.diagonals},
      {"lower_bandwidth", s.lower_bandwidth},
      {"upper_bandwidth", s.upper_bandwidth},
      {"bandwidth_after_rcm", i.orders.empty() ? Json(nullptr) : Json(i.orders.front().locality.bandwidth)}};
  const auto locality_json = [](const Locality& l) {
    return Json{{"bandwidth", l.bandwidth}, {"profile", l.profile}, {"lines_of_x", l.lines}};
  };
  json["orders"] = Json::array({{{"order", "none"}, {"seconds", 0.0}}});
  json["orders"].back().update(locality_json(i.locality));
  for (const OrderRow& order : i.orders) {
    json["orders"].push_back({{"order", order.id}});
    if (order.why.empty())
      json["orders"].back()["seconds"] = order.seconds,
      json["orders"].back().update(locality_json(order.locality));
    else
      json["orders"].back()["why"] = order.why;
  }
  json["order_forecast"] = {{"lines_of_row", i.forecast.lines_now},
                            {"lines_of_row_reached", i.forecast.lines_reached},
                            {"product_ratio", i.forecast.product_ratio}};
  json["structure"]["block_fill"] = Json::object();
  for (std::size_t k = 0; k < 3; ++k)
    json["structure"]["block_fill"][std::to_string(k + 2)] = {{"blocks", s.block_fill[k].blocks},
                                                              {"fill", s.block_fill[k].fill}};
  json["formats"] = Json::array();
  for (const Row& row : i.formats) {
    Json entry = {{"format", row.entry->id}, {"admitted", row.admission.ok}};
    if (row.admission.ok) {
      entry["bytes"] = row.admission.bytes;
      entry["stored_values"] = row.admission.stored_values;
    } else {
      entry["why"] = row.admission.reason;
    }
    json["formats"].push_back(std::move(entry));
  }
  json["formats_left_out"] = i.left_out;
  if (i.roof.memory > 0) {
    json["roofs"] = {{"memory", i.roof.memory}, {"memory_gflops", roof_gflops(s, i.roof.memory)}};
    if (i.roof.cache > 0)
      json["roofs"]["cache"] = i.roof.cache, json["roofs"]["cache_gflops"] = roof_gflops(s, i.roof.cache);
  }
  json["auto"] = {{"format", i.choice.id}, {"reason", i.choice.reason}};
  json["picture"] = {{"rows", i.picture.rows}, {"cols", i.picture.cols}, {"counts", i.picture.counts}};
  json["seconds"] = i.seconds;
  return json;
}

// A table of the orders, and what the rule of `order: auto` expects of one.
std::string order_text(const Inspection& i) {
  std::string text = fmt::format("\n  {:<8} {:>14} {:>18} {:>16} {:>10}\n", "order", "bandwidth", "profile",
                                 "lines of x", "cost");
  const auto line = [&](std::string_view id, const Locality& l, const std::string& cost) {
    text += fmt::format("  {:<8} {:>14} {:>18} {:>16} {:>10}\n", id, grouped(l.bandwidth), grouped(l.profile),
                        grouped(l.lines), cost);
  };
  line("none", i.locality, "");
  for (const OrderRow& order : i.orders)
    if (order.why.empty())
      line(order.id, order.locality, duration(order.seconds));
    else
      text += fmt::format("  {:<8} {}\n", order.id, order.why);
  if (!i.orders.empty())
    text += fmt::format(
        "  lines of x: 64 bytes each, read in {} rows that follow each other. A good order is expected to\n"
        "  take {:.2g} instead of {:.2g} of them a row, and {:.0f} % of the time of a product\n",
        lines_rows, i.forecast.lines_reached, i.forecast.lines_now, 100 * i.forecast.product_ratio);
  return text;
}

std::string to_text(const Inspection& i, bool picture) {
  const Statistics& s = i.statistics;
  const Features& f = s.features;
  std::string text = fmt::format("\n  {}: {} rows, {} columns, {} nonzeros\n", i.name, grouped(s.rows),
                                 grouped(s.cols), grouped(s.nonzeros));
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<22}  {}\n", name, value);
  };
  text += "\n";
  row("size as CSR", fmt::format("{:.4g} MiB", f.memory_footprint_mib));
  row("row length", fmt::format("mean {:.4g}, deviation {:.4g}, {} to {}, empty rows {}", s.mean, s.deviation,
                                s.shortest, s.longest, grouped(s.empty_rows)));
  row("skew", fmt::format("{:.4g}   (longest - mean) / mean", f.skew));
  row("cross-row similarity",
      fmt::format("{:.4g}   0 to 1: part of the entries with a near one in the next row",
                  f.cross_row_similarity));
  row("neighbours",
      fmt::format("{:.4g}   0 to 2: adjacent entries in the same row, on average", f.neighbours));
  row("symmetry", symmetry(i));
  row("diagonal", fmt::format("{}, {}; {} diagonals with entries", s.full_diagonal ? "full" : "has holes",
                              sign_text(i.signs), grouped(s.diagonals)));
  if (i.row_sizes.rows > 0) row("row sizes", sizes_text(i));
  if (i.null_vectors.all)
    row("null space", i.asymmetry <= symmetry_tolerance<double>
                          ? "vectors of equal entries: solve with solver.null_space: constant"
                          : "vectors of equal entries (each row adds up to zero)");
  NullVectors others = i.null_vectors;
  others.all = false;
  for (const std::string& where : in_words(others)) row("null space", "1 at " + where + ", else 0");
  row("bandwidth", i.orders.empty() ? grouped(bandwidth(s))
                                    : fmt::format("{}; {} after reverse Cuthill-McKee", grouped(bandwidth(s)),
                                                  grouped(i.orders.front().locality.bandwidth)));
  row("fill of aligned blocks",
      fmt::format("2x2 {:.2f}, 3x3 {:.2f}, 4x4 {:.2f} times the entries (1 is perfect)", s.block_fill[0].fill,
                  s.block_fill[1].fill, s.block_fill[2].fill));
  if (i.roof.memory > 0) {
    std::string roofs =
        fmt::format("memory {:.3g} GFLOPS ({:.4g} GB/s)", roof_gflops(s, i.roof.memory), i.roof.memory / 1e9);
    if (i.roof.cache > 0)
      roofs += fmt::format(", last-level cache {:.3g} GFLOPS ({:.4g} GB/s)", roof_gflops(s, i.roof.cache),
                           i.roof.cache / 1e9);
    row("roofs of a csr product", roofs);
  }
  text += order_text(i);
  text += "\n  rows by length\n";
  const std::int64_t most = i.lengths.empty() ? 0 : *std::max_element(i.lengths.begin(), i.lengths.end());
  for (std::size_t bin = 0; bin < i.lengths.size(); ++bin) {
    if (i.lengths[bin] == 0) continue;
    const auto length = static_cast<std::size_t>(
        std::ceil(40 * static_cast<double>(i.lengths[bin]) / static_cast<double>(most)));
    text += fmt::format("  {:>12}  {:<40}  {}\n", bin_name(bin), std::string(length, '#'),
                        grouped(i.lengths[bin]));
  }
  if (picture && s.nonzeros > 0) text.append("\n").append(braille(i.picture));
  text += fmt::format("\n  {:<14} {:>12} {:>8} {:>9}\n", "format", "bytes", "B/nnz", "padding");
  const double nonzeros = std::max<double>(1, static_cast<double>(s.nonzeros));
  for (const Row& format : i.formats) {
    const Admission& a = format.admission;
    if (a.ok)
      text +=
          fmt::format("  {:<14} {:>12} {:>8.2f} {:>7.1f} %\n", format.entry->id,
                      grouped(static_cast<std::int64_t>(a.bytes)), static_cast<double>(a.bytes) / nonzeros,
                      100 * static_cast<double>(a.stored_values - s.nonzeros) / nonzeros);
    else
      text += fmt::format("  {:<14} refused: {}\n", format.entry->id, a.reason);
  }
  if (i.left_out > 0)
    text += fmt::format("  These are what `format: auto` considers. {} more: --formats all\n", i.left_out);
  text += fmt::format("\n  format: auto takes {}: {}\n\n", i.choice.id, i.choice.reason);
  return text;
}

}  // namespace

int inspect(const InspectArguments& arguments) {
  Progress progress(!arguments.json);
  progress.stage("reading the matrix");
  if (!arguments.formats.empty())
    (void)formats_named(arguments.formats);  // refused before the matrix is read
  const ContextPtr host = Context::host(arguments.threads);
  std::string name;
  InspectQuestion question;
  const CsrMatrix<double> csr = matrix_of(arguments, host, name, question);
  progress.stage("computing its features");
  Inspection inspection = inspect_matrix(host, csr, arguments.formats, question);
  inspection.name = name;
  progress.clear();
  print(arguments.json ? text(to_json(inspection)) : to_text(inspection, arguments.picture));
  return 0;
}

}  // namespace protean::apps
