// Matrix-vector products of all our formats and kernels next to products of other libraries: one process, the same
// threads, warm, in turns (A B C A B C ...), so that what disturbs the machine disturbs all. Figures are seconds of a
// product: the minimum and the median of all turns. Every product is checked once against a sum in long double.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/matrices.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/note.hpp"
#include "formats/catalogue.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json;
  std::vector<std::string> sets = {"named"}, only, formats;
  int threads = 2;
  double seconds = 1, share = 0.05, entries = 1;
};

// One matrix of the sets; what: its formula or copies. It is made when its turn has come, and may not be there.
struct Subject {
  std::string name, what;
  std::function<std::optional<CsrMatrix<double>>(const ContextPtr&)> make;
};

std::vector<Subject> subjects(const Options& options, const ContextPtr& context) {
  std::vector<Subject> list;
  for (const std::string& set : options.sets) {
    if (set == "named") {
      for (const Source& source : sources())
        list.push_back(
            {source.name, "", [&](const ContextPtr& where) { return load(where, source, options.folder); }});
      continue;
    }
    for (NamedMatrix& matrix :
         set == "formulas"
             ? formula_matrices(options.share)
             : repeated_matrices(context, options.folder, static_cast<std::int64_t>(options.entries)))
      list.push_back({std::move(matrix.name), std::move(matrix.what), std::move(matrix.make)});
  }
  return list;
}

struct Contestant {
  Product product;
  bool ours = false;    // one of our formats
  bool native = false;  // with our own kernel: only these count as our best
  bool right = false;
  std::size_t bytes = 0;
  double update_seconds = 0;
  std::vector<double> samples;
  int repeat = 1;
  double least() const { return *std::min_element(samples.begin(), samples.end()); }
};

// The least of three times, of fewer once they add up to half a second.
template <class Prepare, class Work>
double least_of_three(const Prepare& prepare, const Work& work) {
  double least = std::numeric_limits<double>::infinity(), all = 0;
  for (int i = 0; i < 3 && all < 0.5; ++i) {
    prepare();
    const auto start = Clock::now();
    work();
    const double once = seconds_since(start);
    least = std::min(least, once), all += once;
  }
  return least;
}

// Our formats and kernels for this matrix; those refused are printed.
std::vector<Contestant> our_products(const ContextPtr& context, const CsrMatrix<double>& csr,
                                     const std::vector<std::string>& formats) {
  std::vector<Contestant> list;
  const bool own = formats == std::vector<std::string>{"own"};
  for (const FormatEntry* format : own ? layouts() : catalogue()) {
    if (!own && !wanted(formats, format->id)) continue;
    for (const Kernel& kernel : format->kernels) {
      if (!kernel.host || (own && kernel.name != "native")) continue;
      const std::string name =
          kernel.name == "native" ? std::string(format->id) : fmt::format("{} ({})", format->id, kernel.name);
      if (!kernel.unavailable.empty()) {
        fmt::print("  {:24} not in this build: {}\n", name, kernel.unavailable);
        continue;
      }
      try {
        std::shared_ptr<AssembledMatrix<double>> matrix;
        const double seconds = least_of_three(
                         [&] { matrix.reset(); },
                         [&] { matrix = make_matrix(*format, csr, context, {}, kernel.name); }),
                     update = least_of_three([] {}, [&] { matrix->update_values(csr); });
        const std::int64_t rows = csr.rows(), cols = csr.cols();
        Contestant contestant;
        contestant.product = {name,
                              [matrix, rows, cols](const double* x, double* y) {
                                matrix->apply(VectorView<const double>{x, cols}, {y, rows});
                              },
                              seconds};
        contestant.ours = true, contestant.native = kernel.name == "native",
        contestant.bytes = matrix->bytes(), contestant.update_seconds = update;
        list.push_back(std::move(contestant));
      } catch (const FormatRefused& refusal) { fmt::print("  {:24} refused: {}\n", name, refusal.reason()); }
    }
  }
  return list;
}

void race(std::vector<Contestant>& contestants, const Vector<double>& x, Vector<double>& y, double seconds) {
  constexpr double sample = 2e-4;
  double longest = 0;
  for (Contestant& c : contestants) {
    const auto start = Clock::now();
    for (int i = 0; i < 3; ++i) c.product.apply(x.data(), y.data());
    const double one = seconds_since(start) / 3;
    c.repeat = std::max(1, static_cast<int>(sample / one));
    longest = std::max(longest, std::max(one, sample));
  }
  const int turns = std::clamp(static_cast<int>(seconds / longest), 7, 4000);
  for (int turn = 0; turn < turns; ++turn)
    for (Contestant& c : contestants) {
      c.product.apply(x.data(), y.data());  // brings back what the one before pushed out of the caches
      const auto start = Clock::now();
      for (int i = 0; i < c.repeat; ++i) c.product.apply(x.data(), y.data());
      c.samples.push_back(seconds_since(start) / c.repeat);
    }
}

}  // namespace

int run_host(Arguments& arguments) {
  Options options;
  arguments.read(
      {{"--set", &options.sets,
        "named: eight matrices, four from formulas and, of the folder, G2_circuit, bcsstk17, af23560, wave; formulas: "
        "the matrices of the subcommand device; folder: each matrix of the folder, .pbin too",
        one_of({"named", "formulas", "folder"})},
       shared::folder(options.folder),
       shared::share(options.share),
       shared::entries(options.entries),
       shared::only(options.only),
       shared::formats(options.formats,
                       "our formats; own: those with a layout of their own, with our own kernels"),
       shared::threads(options.threads),
       shared::seconds(options.seconds, "time for each product on each matrix; at least 7 turns are run"),
       shared::json(options.json)});
  if (wanted(options.sets, "folder") && options.folder.empty())
    arguments.refuse("the set folder needs --folder");
  const auto context = Context::host(options.threads);
  Report report("spmv", options.threads, options.json);
  const std::vector<Peer> peers = note_peers(report);
  std::vector<double> ratios;
  bool all_right = true;
  for (const Subject& subject : subjects(options, context)) {
    if (!wanted(options.only, subject.name)) continue;
    const auto csr = subject.make(context);
    if (!csr) {
      fmt::print("\n{}: no such file (--folder)\n", subject.name);
      report["absent"].push_back(subject.name);
      continue;
    }
    const double nnz = static_cast<double>(csr->nonzeros());
    fmt::print("\n{}: {}{} rows, {} entries\n", subject.name, subject.what.empty() ? "" : subject.what + "; ",
               csr->rows(), csr->nonzeros());
    std::vector<Contestant> contestants = our_products(context, *csr, options.formats);
    const bool symmetric = is_symmetric(context, *csr);
    for (const Peer& peer : peers)
      if (peer.products)
        for (Product& product : peer.products(*csr, symmetric, options.threads)) {
          Contestant contestant;
          contestant.product = std::move(product);
          contestants.push_back(std::move(contestant));
        }
    Vector<double> x(context, csr->cols()), y(context, csr->rows());
    std::ranges::copy(waves(x.size(), 1.5), x.data());
    const Reference reference(*csr, x.data());
    for (Contestant& c : contestants) {
      std::fill(y.data(), y.data() + y.size(), std::numeric_limits<double>::quiet_NaN());
      c.product.apply(x.data(), y.data());
      c.right = reference.agrees(y.data());
      if (!c.right) fmt::print("  {} IS WRONG\n", c.product.name);
      all_right &= c.right;
    }
    race(contestants, x, y, options.seconds);

    fmt::print("  {:24} {:>9} {:>9} {:>8} {:>8} {:>9} {:>8}\n", "", "min ms", "median", "GFLOP/s", "B/entry",
               "convert", "update");
    nlohmann::json rows = nlohmann::json::array();
    const Contestant *best_ours = nullptr, *best_peer = nullptr;
    for (const Contestant& c : contestants) {
      const Contestant*& best = c.ours ? best_ours : best_peer;
      if (c.ours == c.native && (!best || c.least() < best->least())) best = &c;
      const double least = c.least(), convert = c.product.setup_seconds / least;
      fmt::print("  {:24} {:9.4f} {:9.4f} {:8.2f} {:>8} {:7.1f} x {:>8}\n", c.product.name, 1e3 * least,
                 1e3 * median(c.samples), 2e-9 * nnz / least,
                 c.ours ? fmt::format("{:.2f}", static_cast<double>(c.bytes) / nnz) : "", convert,
                 c.ours ? fmt::format("{:.1f} x", c.update_seconds / least) : "");
      rows.push_back({{"name", c.product.name},
                      {"ours", c.ours},
                      {"native", c.native},
                      {"right", c.right},
                      {"seconds_min", least},
                      {"seconds_median", median(c.samples)},
                      {"turns", c.samples.size()},
                      {"bytes", c.bytes},
                      {"convert_seconds", c.product.setup_seconds},
                      {"convert_products", convert},
                      {"update_products", c.update_seconds / least}});
    }
    nlohmann::json entry = {
        {"matrix", subject.name}, {"rows", csr->rows()}, {"nonzeros", csr->nonzeros()}, {"products", rows}};
    if (!subject.what.empty()) entry["what"] = subject.what;
    if (best_ours && best_peer) {
      const double ratio = best_peer->least() / best_ours->least();
      ratios.push_back(ratio);
      fmt::print("  best ours {} / best peer {}: {:.2f} times as fast\n", best_ours->product.name,
                 best_peer->product.name, ratio);
      entry["best_ours"] = best_ours->product.name, entry["best_peer"] = best_peer->product.name;
      entry["ratio"] = ratio,
      entry["ratio_of_medians"] = median(best_peer->samples) / median(best_ours->samples);
    }
    report["matrices"].push_back(entry);
    report.write();  // what there is, if the run is ended early
    std::fflush(stdout);
  }
  if (!ratios.empty()) {
    fmt::print("\ngeometric mean of {} matrices: {:.2f} times as fast as the best peer\n", ratios.size(),
               geometric_mean(ratios));
    report["geometric_mean"] = geometric_mean(ratios);
  }
  report.write();
  return all_right ? 0 : 1;
}

}  // namespace protean::bench
