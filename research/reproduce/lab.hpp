// What exhibits are measured with. Each matrix is made once, and each product measured once, for all exhibits of a
// run.
#pragma once
#include <any>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/machine/measure.hpp"
#include "apps/papers/paper_table.hpp"
#include "core/context.hpp"
#include "operators/assembled_matrix.hpp"
#include "research/reproduce/specimen.hpp"

namespace protean::research {

// quick: small stand-ins, short measurements. day: larger ones. full: the sizes of the papers.
enum class Size : unsigned char { quick, day, full };
std::string_view to_string(Size size) noexcept;

// What a size changes.
struct SizeInfo {
  Size size;
  std::int64_t most_entries[2];  // of a generated matrix, on a host and on a GPU; 0: as many as in the paper
  TimingLimits limits;           // of one measurement
  bool whole_table;              // S3: all values of Table I instead of their ends
  std::size_t validation;        // S3, Figure 1: real matrices at most
  int friends;                   // and friends of each
};
std::span<const SizeInfo> sizes() noexcept;
const SizeInfo& info_of(Size size) noexcept;

struct LabOptions {
  Size size = Size::quick;
  Space space = Space::host;
  int threads = 0;
  std::string folder = {};                  // of real matrices; empty: none
  std::int64_t most_entries = 0;            // of a generated matrix; 0: by size and space
  std::int64_t most_formula_entries = 0;    // of the pde matrices; 0: their own size in each size
  std::optional<TimingLimits> limits = {};  // of one measurement; empty: by size
};

// A format with parameters and a kernel, as a paper used it.
struct Way {
  std::string_view format;
  FormatParams params = {};
  std::string_view kernel = {};
  bool single = false;
};

// What was measured of a way and a matrix. If `why` is not empty the format refused, and the numbers are 0.
struct Measured {
  std::string why;
  std::size_t bytes = 0;
  std::int64_t stored = 0;          // values, with padding
  double convert = 0, product = 0;  // seconds
  std::string parts = {};           // of a sum: "DIA(9%)CSR(91%)"
  bool ok() const noexcept { return why.empty(); }
};

// Joules that a processor or a GPU has used; by RAPL on a host, by NVML on a GPU.
class EnergyMeter {
 public:
  explicit EnergyMeter(Space space);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;
  // Why energy cannot be read; empty if it can.
  const std::string& why_not() const noexcept { return why_not_; }
  double joules() const;
  // Of the GPU, by NVML; empty if it is not known.
  std::string gpu_name() const;

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
  std::vector<std::string> counters_;  // files of RAPL
  std::string why_not_;
};

class Lab {
 public:
  // `show` gets a line of what is done now. Throws NotAvailable if there is no such space.
  Lab(
      const LabOptions& options, const PaperTables& papers,
      std::function<void(const std::string&)> show = [](const std::string&) {});

  const PaperTables& papers() const noexcept { return papers_; }
  const LabOptions& options() const noexcept { return options_; }
  const ContextPtr& host() const noexcept { return host_; }
  const ContextPtr& context() const noexcept { return context_; }
  bool device() const noexcept { return options_.space == Space::device; }
  std::int64_t most_entries() const noexcept { return most_entries_; }
  // Of one measurement.
  TimingLimits limits() const;

  // A matrix of the papers. The reference is valid until the next call of matrix() or generated().
  const Specimen& matrix(const std::string& name);
  // A generated matrix; `name` distinguishes it from others.
  const Specimen& generated(const std::string& name, std::string_view kind, const GeneratorParams& params);

  // Bytes and stored values, by admit(), without making the matrix.
  Measured counted(const Specimen& specimen, const Way& way);
  // Conversion from csr in the memory of the space, and product, which is compared with the definition.
  const Measured& measured(const Specimen& specimen, const Way& way);
  // Joules of one product; nothing if they cannot be read. The meter says why.
  std::optional<double> product_joules(const Specimen& specimen, const Way& way);
  const EnergyMeter& meter();

  // 2 nonzeros / seconds of a product, in units of 1e9; nothing if the format refused.
  std::optional<double> gflops(const Specimen& specimen, const Way& way);

  double copy_bandwidth();     // bytes a second; measured once
  const MeasuredRoof& roof();  // of the space; measured once

  // What exhibits of this run have computed and others need again, by a name of theirs.
  std::any& kept(const std::string& name) { return kept_[name]; }

  bool interrupted() const noexcept;
  void show(const std::string& text) const { show_(text); }

 private:
  template <class T>
  struct Place {
    std::string name;
    CsrMatrix<T> csr;  // in the space
    Vector<T> x, y;
    std::vector<double> expected, bound;  // of a product with x, row by row
  };
  template <class T>
  Place<T>& place(const Specimen& specimen);
  template <class T>
  void run(const Specimen& specimen, const Way& way, Measured& result, double* joules);
  const Specimen& keep(std::string name, Specimen specimen);

  LabOptions options_;
  const PaperTables& papers_;
  std::function<void(const std::string&)> show_;
  ContextPtr host_, context_;
  std::int64_t most_entries_;
  std::list<std::pair<std::string, Specimen>> specimens_;  // the newest first
  std::map<std::string, Measured> measured_;
  Place<double> double_;
  Place<float> single_;
  std::unique_ptr<EnergyMeter> meter_;
  double copy_bandwidth_ = 0;
  std::optional<MeasuredRoof> roof_;
  std::map<std::string, std::any> kept_;
};

// The parameters as text, for keys and labels: "C=32 sigma=1".
std::string parameters_text(const FormatParams& params);

}  // namespace protean::research
