#include "apps/ranks/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "core/io/input_file.hpp"
#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::must;

// The graph of A + A^T, cut by PT-Scotch: a part for each own row.
IS cut_graph(Mat A) {
  Mat T = nullptr, graph = nullptr;
  MatPartitioning cut = nullptr;
  IS parts = nullptr;
  must(MatTranspose(A, MAT_INITIAL_MATRIX, &T));
  must(MatAXPY(T, 1, A, DIFFERENT_NONZERO_PATTERN));
  must(MatConvert(T, MATMPIADJ, MAT_INITIAL_MATRIX, &graph));
  must(MatDestroy(&T));
  must(MatPartitioningCreate(PetscObjectComm(protean_types::object(A)), &cut));
  must(MatPartitioningSetAdjacency(cut, graph));
  must(MatPartitioningSetType(cut, MATPARTITIONINGPTSCOTCH));
  must(MatPartitioningSetFromOptions(cut));
  must(MatPartitioningApply(cut, &parts));
  must(MatPartitioningDestroy(&cut)), must(MatDestroy(&graph));
  return parts;
}

// A file with the number of a rank in each line, from 0, as METIS and Scotch write it.
std::vector<PetscInt> read_parts(const FilePath& file, std::int64_t rows, int ranks) {
  const std::string text = io_detail::read_text(file.path, std::size_t{1} << 36);
  std::vector<PetscInt> parts;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view word(text.data() + at, end - at);
    at = end + 1, ++line;
    while (!word.empty() && (word.back() == '\r' || word.back() == ' ')) word.remove_suffix(1);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    PetscInt part = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), part);
    if (error != std::errc() || stop != word.data() + word.size() || part < 0 || part >= ranks)
      throw BadFile(
          file.path, static_cast<std::int64_t>(line), 1,
          fmt::format("'{:.40}' is not a rank; a line for each row has its rank, 0 to {}", word, ranks - 1));
    parts.push_back(part);
  }
  if (static_cast<std::int64_t>(parts.size()) != rows)
    throw BadFile(file.path, 0, 0, fmt::format("has {} lines; the matrix has {} rows", parts.size(), rows));
  return parts;
}

IS parts_of_file(const Ranks& ranks, const FilePath& file, Mat A) {
  PetscInt rows = 0, first = 0, end = 0;
  must(MatGetSize(A, &rows, nullptr)), must(MatGetOwnershipRange(A, &first, &end));
  std::vector<PetscInt> all;
  // Each rank reads it: it has one short line for a row.
  ranks.each([&] { all = read_parts(file, rows, ranks.count()); });
  IS parts = nullptr;
  must(ISCreateGeneral(ranks.comm(), end - first, all.data() + first, PETSC_COPY_VALUES, &parts));
  return parts;
}

}  // namespace

Moved::~Moved() { ISDestroy(&rows_); }

void Moved::move(const Ranks& ranks, const EngineSpec& engine, Mat& A, const std::vector<Vec*>& vectors) {
  if (ranks.count() == 1 || engine.partition == "rows") return;
  IS parts = engine.partition == "graph" ? cut_graph(A) : parts_of_file(ranks, engine.partition_file, A);
  must(ISBuildTwoSided(parts, nullptr, &rows_));
  must(ISDestroy(&parts));
  must(ISSort(rows_));
  Mat moved = nullptr;
  must(MatCreateSubMatrix(A, rows_, rows_, MAT_INITIAL_MATRIX, &moved));
  must(MatDestroy(&A));
  A = moved;
  for (Vec* const each : vectors) {
    if (!*each) continue;
    Vec to = nullptr;
    VecScatter scatter = nullptr;
    must(MatCreateVecs(A, &to, nullptr));
    must(VecScatterCreate(*each, rows_, to, nullptr, &scatter));
    must(VecScatterBegin(scatter, *each, to, INSERT_VALUES, SCATTER_FORWARD));
    must(VecScatterEnd(scatter, *each, to, INSERT_VALUES, SCATTER_FORWARD));
    must(VecScatterDestroy(&scatter)), must(VecDestroy(each));
    *each = to;
  }
}

std::vector<PetscInt> Moved::numbers(Mat A) const {
  PetscInt first = 0, end = 0;
  must(MatGetOwnershipRange(A, &first, &end));
  std::vector<PetscInt> all(static_cast<std::size_t>(end - first));
  std::iota(all.begin(), all.end(), first);
  if (!rows_) return all;
  const PetscInt* before = nullptr;
  must(ISGetIndices(rows_, &before));
  std::copy_n(before, all.size(), all.begin());
  must(ISRestoreIndices(rows_, &before));
  return all;
}

void Moved::back(Vec x, Vec before) const {
  VecScatter scatter = nullptr;
  must(VecScatterCreate(before, rows_, x, nullptr, &scatter));
  must(VecScatterBegin(scatter, x, before, INSERT_VALUES, SCATTER_REVERSE));
  must(VecScatterEnd(scatter, x, before, INSERT_VALUES, SCATTER_REVERSE));
  must(VecScatterDestroy(&scatter));
}

}  // namespace protean::apps::ranks
