// SPLIT: a GPU and the host each multiply a part of the rows at the same time.
//
//        | 1 2 . . |     GPU   rows 0 to 2, csr   row_ptr = 0 2 3 5   col = 0 1 | 1 | 1 2   values = 1 2 | 3 | 4 5
//    A = | . 3 . . |
//        | . 4 5 . |     host  row 3, csr         row_ptr = 0 2       col = 0 1             values = 6 7
//        | . . 6 7 |           reads x_2 and x_3 only: two values are copied to the host, y_3 is copied back
//
// Arrays: in device memory the matrix in csr, which is not copied, and the first rows in the format of the GPU's part;
//   in host memory the other rows in the format of the host's part.
//   columns  [c] int32, on the GPU: the columns in which rows of the host have entries, if they are at most three
//            quarters of the columns from the first to the last one. Otherwise that range of x is copied as it is.
//   packed   [c]: x in these columns. arrived [rows of the host]: their part of y. Both lie on the GPU, and have a copy
//            in pinned memory of the host.
// Bytes: on the GPU: (v + 4) nnz + p (rows + 1) of the matrix in csr, the further arrays of the GPU's part, (4 + v) c,
//   and v for each row of the host. The host's part also takes memory of the host.
// Parameters:
//   device       FORMAT[PARAMETER=VALUE,...]@KERNEL of the GPU's part; brackets and kernel may be left out
//   host         the same for the host's part
//   share        the GPU's percentage of the entries, which then stays fixed; or auto: predicted and corrected, see
//                below
//   corrections  how often measured times may correct that share
//   threads      of the host's part; 0: as many as a host context takes
// Wins: when the host is not much slower than the GPU, and x and y are small compared with the matrix. On a machine
//   with a GPU of some TB/s and a host of some cores all rows, or all except a few percent, go to the GPU. So it is
//   only used if it is named: `auto` and the policy never consider it.
// Refuses: a context of host memory; rows that the format of their part refuses; deterministic mode, because times
//   decide which part adds up a row.
// Source: rows divided by measured speeds after V. Cardellini, A. Fanfarillo, S. Filippone, Heterogeneous sparse matrix
//   computations on hybrid GPU/CPU platforms, ParCo 2013, IOS Press 2014, 203-212,
//   doi:10.3233/978-1-61499-381-0-203; S. B. Indarapu, M. Maramreddy, K. Kothapalli, ICPADS 2013, and W. Yang, K. Li,
//   Z. Mo, K. Li, Performance optimization using partitioned SpMV on GPUs and multicore CPUs, IEEE Trans. Comput. 64
//   (2015) 2623-2636, divide by rows, too. The rule with fixed times and the corrections within a solve are ours.
//
// The first share follows from the machine table's times of csr on both sides and from the latency and bandwidth of the
// link, which are measured once per process. Each part begins with at least 1/64 of the entries, because a speed that
// was never measured cannot be corrected. Then 9 products are run, of which 7 count. Their median times give new
// speeds, a new cut and a prediction; the rows move if that saves 2 percent of the time, and the prediction is tried
// again. This ends when a prediction is within 10 percent of the time, at the latest after `corrections` predictions.
// All rows may go to the GPU; a product is then the product of the GPU's format. tuning() has share, predicted and
// measured time.
//
// The calling thread waits in each product for the values of x that the host reads. Solvers cannot record such products
// into a graph, so they launch each step. A product that moves rows converts them, so it takes memory and time.
// Products with several vectors go column by column while the host has rows.
#include "formats/engines/split/split.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr ParamDoc params[] = {
    {.name = "device",
     .doc = "FORMAT[PARAMETERS]@KERNEL of the GPU's part; brackets and kernel may be left out",
     .default_value = "csr",
     .choices = "csr|sell-c-sigma|sell-packed|..."},
    {.name = "host",
     .doc = "the same for the host's part",
     .default_value = "csr",
     .choices = "csr|sell-c-sigma|sell-packed|..."},
    {.name = "share",
     .doc = "the GPU's percentage of the entries; auto: predicted, and corrected by measured times",
     .default_value = "auto",
     .choices = "auto|0|50|87.5|100|..."},
    {.name = "corrections",
     .doc = "how often measured times may correct the share",
     .default_value = "3",
     .smallest = 0,
     .largest = 20},
    {.name = "threads",
     .doc = "of the host's part; 0: as many as a host context takes",
     .default_value = "0",
     .smallest = 0,
     .largest = 256}};

Admission refuse(const Context&, const SparsityPattern&, const FormatParams&, std::size_t) {
  return Admission::refuse(
      "a GPU and the host share its products, so it needs a GPU: operator.space device, a context of "
      "Context::device()");
}

}  // namespace

constinit const FormatEntry entries::split{
    .family = "composed",
    .id = "split",
    .title = "Rows shared by a GPU and the host",
    .source =
        "after Cardellini, Fanfarillo, Filippone, Heterogeneous sparse matrix computations on hybrid GPU/CPU "
        "platforms, ParCo 2013",
    .traits = {.deterministic = false, .uses_source = true, .chosen_by_name = true, .shares_rows = true},
    .params = params,
    .kernels = {},
    .admit = refuse,
    .device = &device_code::split};

}  // namespace protean::formats
