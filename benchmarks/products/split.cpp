// A product that a GPU and the host share (format split) next to the GPU alone: where the rows are cut, how often
// measured times have corrected that, and how far the predicted time of a product is from the measured one.
//
// For each matrix and each format of the GPU's part (csr; csr-scalar is one in which long rows make the GPU slow, so
// that the host gets a part of them): the GPU alone, the automatic division, and divisions with --shares percent for
// the GPU. Prints Markdown. Seconds of a product are the median of 5 runs of 40 consecutive products, as in a solve.
// Each division is tried three times from the start, since times decide it.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/matrices.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "core/blas1.hpp"
#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "operators/tuning.hpp"

namespace protean::bench {
namespace {

using nlohmann::json;

constexpr int divisions = 3, runs = 5, products = 40, most_trials = 200;

struct Options {
  std::vector<std::string> devices = {"csr", "csr-scalar"}, shares = {"50", "90", "97", "99"};
  std::string host = "csr", json_file;
  int threads = 0;
  double size = 1;
};

double seconds_of(const AssembledMatrix<double>& A, const Vector<double>& x, Vector<double>& y) {
  std::vector<double> samples;
  for (int run = 0; run < runs; ++run) {
    A.context()->synchronize();
    const auto begin = Clock::now();
    for (int k = 0; k < products; ++k) A.apply(x, y);
    A.context()->synchronize();
    samples.push_back(seconds_since(begin) / products);
  }
  return median(samples);
}

// The matrix in format split, when it has settled, and a row of the table.
json divided(const CsrMatrix<double>& csr, const ContextPtr& context, const FormatParams& params,
             const Vector<double>& x, Vector<double>& y, double alone) {
  const auto A = make_matrix(find_format("split"), csr, context, params);
  const HasTuning& tuner = *A->abilities().tuning;
  for (int k = 0; k < most_trials && !tuner.tuning().settled; ++k) A->apply(x, y);
  const Tuning tuning = tuner.tuning();
  const double seconds = seconds_of(*A, x, y);
  const double off = tuning.predicted_seconds / tuning.measured_seconds - 1;
  const std::string& share = tuning.choices.at(0).value;
  fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} % | {:.1f} | {:.2f} |{}\n", params.word("share"),
             share, tuning.corrections, 1e6 * tuning.predicted_seconds, 1e6 * tuning.measured_seconds,
             100 * off, 1e6 * seconds, alone / seconds, tuning.settled ? "" : " not settled");
  std::fflush(stdout);
  return {{"asked", params.word("share")},
          {"share", std::stod(share)},
          {"corrections", tuning.corrections},
          {"predicted_seconds", tuning.predicted_seconds},
          {"measured_seconds", tuning.measured_seconds},
          {"seconds", seconds},
          {"settled", tuning.settled},
          {"note", tuning.note}};
}

}  // namespace

int run_split(Arguments& arguments) {
  Options options;
  arguments.read({{"--device ID,...", &options.devices, "formats of the GPU's part"},
                  {"--host ID", &options.host, "format of the host's part"},
                  {"--threads", &options.threads, "of the host; 0: as many as it has", at_least(0)},
                  {"--shares P,...", &options.shares, "percent of the rows for the GPU"},
                  shared::share(options.size),
                  shared::json(options.json_file)});
  const ContextPtr host = Context::host(options.threads), context = Context::device();
  Report report("split", host->threads(), options.json_file);
  json& results = report["results"] = json::array();
  int near = 0, settled = 0;
  for (const NamedMatrix& matrix : formula_matrices(options.size)) {
    const CsrMatrix<double> csr = upload(context, matrix.make(host));
    Vector<double> x(context, csr.cols()), y(context, csr.rows());
    fill<double>(*context, 1.0, x);
    for (const std::string& device : options.devices) {
      std::optional<double> alone;
      try {
        const auto A = make_matrix(find_format(device), csr, context);
        for (int k = 0; k < 5; ++k) A->apply(x, y);
        alone = seconds_of(*A, x, y);
      } catch (const FormatRefused& refused) { fmt::print("\n{}: {}\n", matrix.name, refused.what()); }
      if (!alone) continue;
      fmt::print("\n{}, {} rows, {} entries; {} on the GPU, {} on {} threads. The GPU alone: {:.1f} us\n\n",
                 matrix.name, csr.rows(), csr.nonzeros(), device, options.host, host->threads(),
                 1e6 * *alone);
      fmt::print(
          "| share asked | share | corrections | predicted, us | measured, us | off | afterwards, us | times "
          "as fast "
          "as the GPU alone |\n|---|---|---|---|---|---|---|---|\n");
      const auto add = [&](const std::string& share) {
        json one = divided(csr, context,
                           {{"device", device},
                            {"host", options.host},
                            {"share", share},
                            {"threads", std::to_string(options.threads)}},
                           x, y, *alone);
        if (share == "auto")
          ++settled,
              near +=
              std::fabs(one["predicted_seconds"].get<double>() / one["measured_seconds"].get<double>() - 1) <=
              0.1;
        one["matrix"] = matrix.name, one["device"] = device, one["host"] = options.host;
        one["alone_seconds"] = *alone, one["rows"] = csr.rows(), one["nonzeros"] = csr.nonzeros();
        results.push_back(std::move(one));
      };
      for (int k = 0; k < divisions; ++k) add("auto");
      for (const std::string& share : options.shares) add(share);
    }
  }
  fmt::print("\nPredicted within 10 percent: {} of {} divisions.\n", near, settled);
  report.write();
  return 0;
}

}  // namespace protean::bench
