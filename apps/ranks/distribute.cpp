#include "apps/ranks/distribute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "apps/problem/system.hpp"
#include "apps/ranks/shares.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/io/pbin_parts.hpp"
#include "core/io/vector_file.hpp"
#include "core/io/vector_writer.hpp"

namespace protean::apps::ranks {
namespace {

constexpr std::int64_t most_indices = std::numeric_limits<PetscInt>::max();
constexpr std::int64_t piece = std::int64_t{1} << 27;  // numbers in one message

void require_indices(std::int64_t entries) {
  if (entries > most_indices)
    throw NotAvailable(fmt::format(
        "this rank would have {} entries of the matrix; PETSc counts up to {} here: take more ranks", entries,
        most_indices));
}

template <class T>
void send(const T* data, std::int64_t count, int to, MPI_Comm comm) {
  for (std::int64_t at = 0; at < count; at += piece)
    MPI_Send(data + at, static_cast<int>(std::min(piece, count - at) * static_cast<std::int64_t>(sizeof(T))),
             MPI_BYTE, to, 0, comm);
}
template <class T>
void receive(T* data, std::int64_t count, int from, MPI_Comm comm) {
  for (std::int64_t at = 0; at < count; at += piece)
    MPI_Recv(data + at, static_cast<int>(std::min(piece, count - at) * static_cast<std::int64_t>(sizeof(T))),
             MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE);
}

// Copies the rows out of a matrix in memory.
void copy_rows(const CsrMatrix<double>& csr, std::int64_t first, std::int64_t end, OwnRows& own) {
  const RowPointers& p = csr.pattern.row_ptr;
  const std::int64_t base = p[first], entries = p[end] - base;
  require_indices(entries);
  own.first = first, own.rows = end - first;
  own.row_ptr.resize(static_cast<std::size_t>(own.rows) + 1);
  for (std::int64_t i = 0; i <= own.rows; ++i)
    own.row_ptr[static_cast<std::size_t>(i)] = static_cast<PetscInt>(p[first + i] - base);
  own.col.assign(csr.pattern.col + base, csr.pattern.col + base + entries);
  own.values.assign(csr.values + base, csr.values + base + entries);
}

// What validate_sorted() and require_finite() check of a whole matrix.
void check_rows(const OwnRows& own, const std::string& path) {
  const auto refuse = [&](std::int64_t row, const std::string& what) {
    throw BadFile(path, 0, 0, fmt::format("row {} (counted from 0) {}", own.first + row, what));
  };
  for (std::int64_t i = 0; i < own.rows; ++i) {
    const PetscInt begin = own.row_ptr[static_cast<std::size_t>(i)],
                   end = own.row_ptr[static_cast<std::size_t>(i) + 1];
    if (end < begin) refuse(i, "has row pointers that decrease");
    for (PetscInt k = begin; k < end; ++k) {
      const PetscInt j = own.col[static_cast<std::size_t>(k)];
      if (j < 0 || j >= own.all_cols || (k > begin && j <= own.col[static_cast<std::size_t>(k) - 1]))
        refuse(i, fmt::format("has column {}, which is out of range or out of order", j));
      if (!std::isfinite(own.values[static_cast<std::size_t>(k)]))
        refuse(i, "has an entry that is not finite");
    }
  }
}

bool is_monotone(const RowPointers& p, std::int64_t first, std::int64_t end, std::int64_t entries) {
  for (std::int64_t i = first; i < end; ++i)
    if (p[i] > p[i + 1]) return false;
  return p[first] >= 0 && p[end] <= entries;
}

// Each rank computes the checksums of a share of the file.
void require_checksums(const Ranks& ranks, const std::string& path) {
  std::vector<std::uint64_t> own;
  ranks.each([&] { own = io_detail::pbin_block_sums(path, ranks.rank(), ranks.count()); });
  const std::vector<std::string> all =
      ranks.gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(std::uint64_t)});
  ranks.each([&] {
    if (!ranks.first()) return;
    std::vector<std::vector<std::uint64_t>> sums;
    for (const std::string& bytes : all) {
      sums.emplace_back(bytes.size() / sizeof(std::uint64_t));
      std::memcpy(sums.back().data(), bytes.data(), bytes.size());
    }
    io_detail::require_pbin_checksums(path, sums);
  });
}

OwnRows read_pbin_rows(const Ranks& ranks, const std::string& path) {
  OwnRows own;
  ranks.each([&] {
    const CsrMatrix<double> all = read_pbin(Context::host(1), path, false);
    own.all_rows = all.rows(), own.all_cols = all.cols(), own.all_entries = all.nonzeros();
    const std::vector<std::int64_t> first = first_rows(all.pattern.row_ptr, all.rows(), ranks.count());
    const std::int64_t begin = first[static_cast<std::size_t>(ranks.rank())],
                       end = first[static_cast<std::size_t>(ranks.rank()) + 1];
    if (!is_monotone(all.pattern.row_ptr, begin, end, all.nonzeros()))
      throw BadFile(path, 0, 0, fmt::format("has wrong row pointers in rows {} to {}", begin, end));
    copy_rows(all, begin, end, own);
    check_rows(own, path);
  });
  ranks.require_same(fmt::format("{} x {}, {} entries", own.all_rows, own.all_cols, own.all_entries),
                     "the matrix '" + path + "'");
  require_checksums(ranks, path);
  return own;
}

OwnRows read_and_scatter(const Ranks& ranks, const MatrixSpec& spec) {
  OwnRows own;
  CsrMatrix<double> all;
  std::vector<std::int64_t> first(static_cast<std::size_t>(ranks.count()) + 1);
  ranks.each([&] {
    if (!ranks.first()) return;
    all = read_matrix(Context::host(1), spec.file.path,
                      {.duplicates = spec.duplicates, .allow_not_finite = false});
    first = first_rows(all.pattern.row_ptr, all.rows(), ranks.count());
  });
  std::int64_t sizes[] = {all.rows(), all.cols(), all.nonzeros()};
  MPI_Bcast(sizes, 3, MPI_INT64_T, 0, ranks.comm());
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_INT64_T, 0, ranks.comm());
  own.all_rows = sizes[0], own.all_cols = sizes[1], own.all_entries = sizes[2];
  const auto at = static_cast<std::size_t>(ranks.rank());
  std::int64_t entries = 0;
  std::vector<std::int64_t> of_ranks(ranks.first() ? static_cast<std::size_t>(ranks.count()) : 0);
  for (std::size_t k = 0; k < of_ranks.size(); ++k)
    of_ranks[k] = all.pattern.row_ptr[first[k + 1]] - all.pattern.row_ptr[first[k]];
  MPI_Scatter(of_ranks.data(), 1, MPI_INT64_T, &entries, 1, MPI_INT64_T, 0, ranks.comm());
  // Memory first, so that a rank without it is heard of before anything is sent.
  ranks.each([&] {
    require_indices(entries);
    own.first = first[at], own.rows = first[at + 1] - first[at];
    own.row_ptr.resize(static_cast<std::size_t>(own.rows) + 1);
    own.col.resize(static_cast<std::size_t>(entries)), own.values.resize(static_cast<std::size_t>(entries));
  });
  if (!ranks.first()) {
    receive(own.row_ptr.data(), own.rows + 1, 0, ranks.comm());
    receive(own.col.data(), entries, 0, ranks.comm());
    receive(own.values.data(), entries, 0, ranks.comm());
    return own;
  }
  for (int rank = ranks.count() - 1; rank > 0; --rank) {
    const std::int64_t begin = first[static_cast<std::size_t>(rank)],
                       end = first[static_cast<std::size_t>(rank) + 1];
    const std::int64_t base = all.pattern.row_ptr[begin];
    std::vector<PetscInt> row_ptr(static_cast<std::size_t>(end - begin) + 1);
    for (std::int64_t i = begin; i <= end; ++i)
      row_ptr[static_cast<std::size_t>(i - begin)] = static_cast<PetscInt>(all.pattern.row_ptr[i] - base);
    send(row_ptr.data(), end - begin + 1, rank, ranks.comm());
    send(all.pattern.col + base, of_ranks[static_cast<std::size_t>(rank)], rank, ranks.comm());
    send(all.values + base, of_ranks[static_cast<std::size_t>(rank)], rank, ranks.comm());
  }
  copy_rows(all, 0, first[1], own);
  return own;
}

// Keeps the rows of one rank from the rows of a generator.
class Keeper final : public RowReceiver {
 public:
  Keeper(const Ranks& ranks, OwnRows& own) : ranks_(ranks), own_(own) {}
  void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) override {
    own_.all_rows = rows, own_.all_cols = cols, own_.all_entries = nonzeros;
    own_.row_ptr.push_back(0), own_.first = rows;
  }
  void take(const RowStretch& stretch) override {
    for (std::int64_t i = 0; i < stretch.rows; ++i) {
      const std::int64_t at = stretch.row_ptr[i] - stretch.row_ptr[0],
                         length = stretch.row_ptr[i + 1] - stretch.row_ptr[i];
      if (part_of_row(before_, own_.all_entries, ranks_.count()) == ranks_.rank()) {
        if (own_.rows == 0) own_.first = stretch.first + i;
        require_indices(static_cast<std::int64_t>(own_.col.size()) + length);
        own_.col.insert(own_.col.end(), stretch.col + at, stretch.col + at + length);
        own_.values.insert(own_.values.end(), stretch.values + at, stretch.values + at + length);
        own_.row_ptr.push_back(static_cast<PetscInt>(own_.col.size())), ++own_.rows;
      }
      before_ += length;
    }
  }

 private:
  const Ranks& ranks_;
  OwnRows& own_;
  std::int64_t before_ = 0;
};

OwnRows generate_own_rows(const Ranks& ranks, const MatrixSpec& spec) {
  OwnRows own;
  ranks.each([&] {
    Keeper keeper(ranks, own);
    generate_rows(Context::host(1), spec.kind, spec.params, keeper, std::int64_t{1} << 20);
  });
  return own;
}

}  // namespace

OwnRows read_rows(const Ranks& ranks, const MatrixSpec& spec) {
  const std::string& path = spec.file.path;
  bool pbin = false;
  ranks.each([&] { pbin = spec.file && is_pbin(path); });
  OwnRows own = !spec.file ? generate_own_rows(ranks, spec)
                : pbin     ? read_pbin_rows(ranks, path)
                           : read_and_scatter(ranks, spec);
  ranks.each([&] {
    const std::string name = spec.file ? fmt::format("the matrix '{}'", path) : "the matrix";
    if (own.all_rows == 0 || own.all_cols == 0)
      fail(spec.place,
           fmt::format("{} is empty ({} x {}); there is nothing to solve", name, own.all_rows, own.all_cols));
    if (own.all_rows != own.all_cols)
      fail(spec.place, fmt::format("{} has {} rows and {} columns; a system A x = b needs a square one", name,
                                   own.all_rows, own.all_cols));
    if (spec.scale == 1) return;
    for (double& value : own.values)
      if (!std::isfinite(value *= spec.scale))
        fail(spec.scale_place,
             fmt::format("with a scale of {:g} an entry of the matrix becomes infinite; take a smaller one",
                         spec.scale));
  });
  return own;
}

std::vector<double> read_part(const Ranks& ranks, const VectorSpec& spec, std::int64_t first,
                              std::int64_t size, std::int64_t all, const std::string& key) {
  std::vector<double> part;
  Vector<double> whole;
  ranks.each([&] {
    part.resize(static_cast<std::size_t>(size));
    if (!spec.file) {
      for (std::int64_t i = 0; i < size; ++i)
        part[static_cast<std::size_t>(i)] =
            spec.seed ? random_value(static_cast<std::uint64_t>(*spec.seed), first + i) : spec.value;
      return;
    }
    if (!ranks.first()) return;
    VectorColumns read = read_vectors(Context::host(1), spec.file.path);
    if (read.columns > 1)
      fail(spec.file.place,
           fmt::format("'{}' has {} vectors; engine petsc takes one: solve them one after another, or on "
                       "one rank with engine protean",
                       spec.file.path, read.columns));
    if (read.entries.size() != all)
      fail(spec.file.place, fmt::format("{}: '{}' has {} entries; the matrix has {} rows", key,
                                        spec.file.path, read.entries.size(), all));
    whole = std::move(read.entries);
  });
  if (!spec.file) return part;
  std::int64_t range[2] = {first, size};
  std::vector<std::int64_t> ranges(ranks.first() ? static_cast<std::size_t>(ranks.count()) * 2 : 0);
  MPI_Gather(range, 2, MPI_INT64_T, ranges.data(), 2, MPI_INT64_T, 0, ranks.comm());
  if (!ranks.first()) {
    receive(part.data(), size, 0, ranks.comm());
    return part;
  }
  for (int rank = 1; rank < ranks.count(); ++rank) {
    const auto at = static_cast<std::size_t>(rank) * 2;
    send(whole.data() + ranges[at], ranges[at + 1], rank, ranks.comm());
  }
  std::copy(whole.data() + first, whole.data() + first + size, part.begin());
  return part;
}

void write_parts(const Ranks& ranks, const std::string& path, std::span<const double> part, std::int64_t all,
                 const std::string& comment) {
  const auto own = static_cast<std::int64_t>(part.size());
  std::vector<std::int64_t> sizes(ranks.first() ? static_cast<std::size_t>(ranks.count()) : 0);
  MPI_Gather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, 0, ranks.comm());
  if (!ranks.first()) {
    // Rank 0 says when it wants the part, or -1 if the file has failed.
    int wanted = 0;
    MPI_Recv(&wanted, 1, MPI_INT, 0, 1, ranks.comm(), MPI_STATUS_IGNORE);
    if (wanted > 0) send(part.data(), own, 0, ranks.comm());
    ranks.each([] {});
    return;
  }
  int heard = 1;  // ranks whose parts have been written, or failed to be
  ranks.each([&] {
    try {
      io_detail::VectorWriter writer(path, all, comment);
      writer.add(part);
      std::vector<double> other;
      while (heard < ranks.count()) {
        const int from = heard, yes = 1;
        other.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(from)]));
        MPI_Send(&yes, 1, MPI_INT, from, 1, ranks.comm());
        receive(other.data(), static_cast<std::int64_t>(other.size()), from, ranks.comm());
        ++heard;
        writer.add(other);
      }
      writer.commit();
    } catch (...) {
      const int no = -1;
      for (; heard < ranks.count(); ++heard) MPI_Send(&no, 1, MPI_INT, heard, 1, ranks.comm());
      throw;
    }
  });
}

}  // namespace protean::apps::ranks
