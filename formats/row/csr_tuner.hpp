// The division of the work of a CSR product on a GPU after Reguly and Giles: a rule in constant time, and a
// tuner that tries other parameters in successive products of a running solve. Pure functions of numbers,
// which need no GPU.
//
// Parameters: `coop` neighbouring threads compute a row. Each group of them computes `repeat` rows one after
// another, in blocks of `block` threads. So there are rows / (block / coop * repeat) blocks, rounded up.
// Source: I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based GPUs, InPar 2012,
// doi:10.1109/InPar.2012.6339602, sections 5.4 (rule) and 6 (tuner).
#pragma once
#include <cstddef>
#include <cstdint>

namespace protean::formats {

struct CsrLaunch {
  int coop = 1;    // 1, 2, 4, 8, 16 or 32
  int repeat = 1;  // 1 or more
  int block = 128;
  bool operator==(const CsrLaunch&) const = default;
};

// The blocks that compute `rows` rows: ceil(rows / (block / coop * repeat)).
constexpr std::int64_t blocks_of_launch(const CsrLaunch& how, std::int64_t rows) noexcept {
  const std::int64_t rows_a_block = std::int64_t{how.block / how.coop} * how.repeat;
  return (rows + rows_a_block - 1) / rows_a_block;
}

// block 128. coop is the smallest power of two above the square root of the mean row length, at most 32.
// repeat is the largest number that leaves at least 1500 blocks; 1 if there are fewer in any case.
CsrLaunch fixed_rule(std::int64_t rows, std::int64_t nonzeros) noexcept;

// The run-time tuner. Until done(): ask for next(), run a product with it, and pass its seconds to
// measured(). After that next() is the best launch found. The steps of section 6:
//   1. repeat is halved. If the time changes by more than 5 %, step 3 follows; else, and if repeat is 1, step 2.
//   2. coop is doubled and block set to 192. If that is faster, coop is doubled further, else it is halved, while times
//      fall.
//   3. If halving repeat was faster, it is halved further, else doubled, while times fall.
//   4. block is increased in steps of 32 up to 512 while times fall. If the first step is not faster, block
//      is decreased, down to 96 in single and 64 in double precision.
// Step 4 follows steps 2 and 3. The paper leaves some choices open: when coop is halved in step 2, block
// stays 192; each trial that is faster than the best before becomes the base of the next one; a launch that
// the limits forbid counts as not faster.
class CsrTuner {
 public:
  CsrTuner(const CsrLaunch& start, std::size_t value_bytes) noexcept;

  const CsrLaunch& next() const noexcept { return trial_; }
  const CsrLaunch& best() const noexcept { return best_; }
  bool done() const noexcept { return stage_ == Stage::done; }
  int measurements() const noexcept { return measurements_; }
  // Seconds of a product with next(). Not called when done.
  void measured(double seconds) noexcept;

 private:
  enum class Stage : unsigned char {
    first,        // the fixed rule itself
    halve_first,  // step 1
    more_coop,    // step 2
    less_coop,
    less_repeat,  // step 3
    more_repeat,
    more_block,  // step 4
    less_block,
    done
  };
  bool try_next(Stage stage, CsrLaunch trial) noexcept;
  void begin_coop() noexcept;
  void less_coop() noexcept;
  void begin_blocks() noexcept;
  void less_block() noexcept;
  void finish() noexcept;

  CsrLaunch best_, trial_;
  double best_seconds_ = 0;
  int least_block_;
  int measurements_ = 0;
  bool grew_ = false;  // coop or block, in this step
  Stage stage_ = Stage::first;
};

// The search of csr-gridification: every coop with blocks of 64, 128, 256 and 512 threads, one row a group; the fastest
// stays. It is used as CsrTuner is. The first products, one with each coop, are not counted: the driver loads a kernel
// when it is first used.
// Source: A.-K. Cheik Ahamed, F. Magoules, Fast sparse matrix-vector multiplication on graphics processing unit for
// finite element analysis, HPCC 2012, 1307-1314: the grid is tuned for each matrix.
class CsrSweep {
 public:
  CsrSweep() noexcept : best_(launch(0)) {}

  CsrLaunch next() const noexcept { return done() ? best_ : launch(measurements_); }
  const CsrLaunch& best() const noexcept { return best_; }
  bool done() const noexcept { return measurements_ == loads + launches; }
  int measurements() const noexcept { return measurements_; }
  void measured(double seconds) noexcept;

  static constexpr int loads = 6, launches = 24;

 private:
  static CsrLaunch launch(int measurement) noexcept;

  CsrLaunch best_;
  double best_seconds_ = 0;
  int measurements_ = 0;
};

}  // namespace protean::formats
