// Predicts the time of a product in a storage format, and the time of the conversion into it, from times
// measured on this machine or a similar one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/context.hpp>
#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// One matrix in one format, measured.
struct MeasuredFormat {
  std::string format;  // "sell-packed", or "csr/mkl" for a kernel other than the default one
  std::size_t bytes = 0;
  double product_seconds = 0, convert_seconds = 0;
};

// One matrix in several formats, csr among them. A matrix assembled from element matrices may also have
// lma-atomic, lma-coloured and lma-gather, and `assembly`: bytes and product of csr, with the time of the
// assembly as convert_seconds. `order-rcm` (of any order: order-ID) has bytes and product of csr of the matrix in a
// random numbering of its rows, and as convert_seconds the time to find the order of that matrix and to permute it.
struct MeasuredMatrix {
  std::string matrix;
  Space space = Space::host;
  std::int64_t rows = 0, nonzeros = 0;
  std::vector<MeasuredFormat> formats;
  double row_changes = -1;  // row_changes() of the pattern; -1: unknown
};

// The content of a machine file, which `protean tune` writes.
struct MachineTable {
  std::string machine;  // processor, threads, date
  std::vector<MeasuredMatrix> matrices;
};

// The table for this processor: measured on an Intel or AMD host with AVX-512 or on one with AVX2, each with two
// threads, and on one H200 and one H100. It has no prices of orders. The tables are
// operators/policy/builtin_machine.tsv, builtin_amd_avx512.tsv and builtin_avx2.tsv; benchmarks/make_machine_table.py
// writes them and the build embeds them. The first call reads them, in 1 to 4 ms. The heads of these files name the
// measurements in docs/results.
const MachineTable& builtin_machine();

// The matrix whose times are predicted. Bytes are what admit() returns, or an estimate.
struct CostQuery {
  std::int64_t rows = 0, nonzeros = 0;
  std::size_t csr_bytes = 0;
  // Bytes in format sell-packed, which packs column indices: a measure of the distances between columns, and
  // so of the cache misses of x. 0: unknown.
  std::size_t packed_bytes = 0;
  double row_changes = -1;
};

// Time to find an order of the rows and to permute the matrix, in products of csr, if it was not measured.
inline constexpr double order_products = 60;

// The fraction of rows whose length differs from the row before, in a sample of up to 1024 rows. If it is high, the
// processor mispredicts the ends of the loops over rows. This costs csr more than formats that process rows in slices.
// -1 for patterns in device memory or of fewer than two rows. Time O(1).
double row_changes(const SparsityPattern& pattern);
// The same for a pattern in the memory of the context. On a device the host waits for a copy of the sample.
double row_changes(const Context& context, const SparsityPattern& pattern);

struct CostPrediction {
  bool known = false;          // false: the table has no times of this format in this space
  double product_seconds = 0;  // with values in double
  double convert_seconds = 0;
  // If the sizes of the matrix predict the conversion: its seconds on the machine of the table, and the time of a
  // product in csr here, relative to that machine. by_size 0: the conversion is predicted in products of csr.
  double by_size = 0, slower = 1;
  double uncertainty = 0;  // relative standard deviation of product_seconds

  // The same if the running format takes `factor` times as long.
  CostPrediction scaled(double factor) const;
};

// Time = bytes / bandwidth. Bytes count the matrix, and x and y once each: 8 (rows + cols). The bandwidth of a format
// relative to csr on the same matrix is a weighted geometric mean over the measured matrices. The weight is larger for
// more similar matrices: in the size of the working set (caches), the mean row length and row_changes (loop overhead),
// and the bytes relative to csr (padding, packing).
//
// Conversions are predicted by size: once + a rows + b entries + c bytes, with numbers fitted to the conversions into
// the format, times a weighted median of the ratios of similar matrices. If csr is more than twice as fast or slow here
// as on the machine of the table, that ratio over 2 counts too. Conversions are predicted in products of csr if the
// table has fewer than twelve for the format, and for a matrix smaller than all of the table.
//
// The formulas (2)-(4) of Reguly and Giles (InPar 2012) for the traffic of x are not used: x costs about the same in
// csr and in the format, and times are scaled by the measured product of the running format.
class CostModel {
 public:
  // Copies the times of this space, sorted by format, so that a prediction reads the times of its format alone.
  // Time O(entries of the table).
  CostModel(const MachineTable& table, Space space);
  // The model of the built-in table. Nothing is read before the first question. The first question reads, once in a
  // process, only the formats worth a look in this space: a solve that ends before it asks does not wait for it. The
  // rest is read, also once, for a question about another format.
  explicit CostModel(Space space) : space_(space) {}

  // The part of a prediction that depends on the running format alone.
  struct Reference {
    bool known = false;
    std::size_t bytes = 0;
    double log_bandwidth = 0, deviation = 0;  // of bandwidth / bandwidth of csr
    double csr_seconds = 0;                   // of a product in csr, as csr_seconds() has it
  };
  Reference reference(const CostQuery& query, std::string_view running, std::size_t running_bytes) const;
  CostPrediction relative(const CostQuery& query, std::string_view format, std::size_t bytes,
                          const Reference& running, double running_seconds) const;
  // Predicts relative to the measured product: `running_seconds` in format `running` of `running_bytes`.
  CostPrediction relative(const CostQuery& query, std::string_view format, std::size_t bytes,
                          std::string_view running, std::size_t running_bytes, double running_seconds) const;
  // convert_seconds is the time to assemble element matrices into CSR with all threads, if a product of
  // `running` takes running_seconds. A fixed number of products of csr if the table has no time of an
  // assembly.
  CostPrediction assembly(const CostQuery& query, std::string_view running, std::size_t running_bytes,
                          double running_seconds) const;
  // convert_seconds is the time to find the order `id` and to put the matrix into it, with all threads, if a product
  // of `running` takes running_seconds; product_seconds is for csr, in the present order. order_products such
  // products if the table has no time of that order.
  CostPrediction ordering(const CostQuery& query, std::string_view id, std::string_view running,
                          std::size_t running_bytes, double running_seconds) const;
  // Whether the table has a time of that order.
  bool knows_order(std::string_view id) const;
  // Predicts without a measurement in this solve, as if this machine were the table's.
  CostPrediction absolute(const CostQuery& query, std::string_view format, std::size_t bytes) const;
  // The time of a product in csr, predicted like absolute(); 0 if the table has no time of this space. With reference()
  // for csr and relative() it is the part of absolute() that all formats share.
  double csr_seconds(const CostQuery& query) const;
  // The time that the best of the formats worth a look saves in that many products, conversion counted, in the mean
  // over the measured matrices; 0 for a matrix in which nothing saves time. Matrices of similar size and rows count
  // more. So it is the expected gain of a look at the formats of a matrix, before anything except its size is known. 0
  // if the table has no time of this space. Time O(matrices of the table).
  double expected_saving(const CostQuery& query, double products) const;
  // Whether a storage format, with one of its kernels, is worth a look: it is one of the few that together are nearly
  // as fast as all, over solves of several lengths on the measured matrices; csr, which is always looked at, is not
  // among them.
  bool may_be_fastest(std::string_view format) const;
  // Whether the table has times of this format, or of this kernel of a format ("sell-c-sigma/segments").
  PROTEAN_HIDDEN bool knows(std::string_view format) const;
  // The same model with twice as many formats worth a look: for solves so long that the look does not matter.
  CostModel with_rare_formats() const;

 private:
  struct Estimate {
    bool known = false;
    double log_bandwidth = 0, deviation = 0;  // of bandwidth / bandwidth of csr
    double by_size = 0;                       // seconds of the conversion; 0: not known
    double log_conversion = 0;                // if it is not known by size, in products of csr
  };
  Estimate estimate(const CostQuery& query, std::string_view format, std::size_t bytes) const;
  double csr_bandwidth(const CostQuery& query) const;  // bytes per second; 0 if unknown

  struct PROTEAN_HIDDEN Samples;
  // For a format that is not among the few, the built-in table is read whole.
  const Samples& samples() const { return samples_ ? *samples_ : few_of_builtin(space_); }
  PROTEAN_HIDDEN static const Samples& few_of_builtin(Space space);
  PROTEAN_HIDDEN static const Samples& all_of_builtin(Space space);

  Space space_;
  bool with_rare_ = false;
  std::shared_ptr<const Samples> samples_;  // null: the samples of the built-in table
};

// The model of `table`, or of the built-in table if it is null.
inline CostModel model_of(const MachineTable* table, Space space) {
  return table ? CostModel(*table, space) : CostModel(space);
}

}  // namespace protean
