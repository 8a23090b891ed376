#include "distributed/multigrid/part_levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "distributed/messages.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/multigrid/host/prolongator.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::detail {
namespace {

// Rows of numbers in a message.
template <class T>
void write_rows(PartMessage& message, const PartRows<T>& rows) {
  write(message, rows.row_ptr), write(message, rows.col), write(message, rows.values);
}
template <class T>
PartRows<T> read_rows(MessageReader& reader) {
  PartRows<T> rows;
  rows.row_ptr = reader.read<std::int64_t>(), rows.col = reader.read<std::int32_t>();
  rows.values = reader.read<T>();
  return rows;
}
template <class T>
void append(PartRows<T>& to, std::span<const std::int32_t> col, const T* values) {
  to.col.insert(to.col.end(), col.begin(), col.end());
  to.values.insert(to.values.end(), values, values + col.size());
  to.row_ptr.push_back(std::ssize(to.col));
}
template <class T>
const T* values_of(const PartRows<T>& rows, std::int64_t r) {
  return rows.values.data() + rows.row_ptr[at(r)];
}

template <class T>
CsrMatrix<T> csr_of_rows(const ContextPtr& host, PartRows<T> rows, std::int64_t cols) {
  Buffer<T> values(host, std::ssize(rows.values));
  std::copy(rows.values.begin(), rows.values.end(), values.data());
  auto graph = std::make_shared<Graph>();
  graph->ptr = std::move(rows.row_ptr), graph->col = std::move(rows.col);
  return matrix_of<T>(std::move(graph), cols, std::move(values));
}
template <class T>
CsrMatrix<T> first_rows(CsrMatrix<T> csr, std::int64_t rows) {
  csr.pattern.rows = rows, csr.pattern.nonzeros = csr.pattern.row_ptr[rows];
  return csr;
}

// Numbers of columns: own ones by their place, others behind them in the order of a sorted list of places.
struct Columns {
  std::int64_t begin, end;
  const std::vector<std::int32_t>& others;
  // -1 if it is not there.
  std::int32_t number(std::int32_t place) const {
    if (place >= begin && place < end) return static_cast<std::int32_t>(place - begin);
    const auto found = std::lower_bound(others.begin(), others.end(), place);
    if (found == others.end() || *found != place) return -1;
    return static_cast<std::int32_t>(end - begin + (found - others.begin()));
  }
  std::int32_t place(std::int32_t number) const {
    return number < end - begin ? static_cast<std::int32_t>(begin + number)
                                : others[at(number - (end - begin))];
  }
  // The row with these columns, as far as they are there, ascending.
  template <class T>
  void add(PartRows<T>& to, std::span<const std::int32_t> places, const T* values) const {
    for (const bool own : {true, false})
      for (std::size_t k = 0; k < places.size(); ++k) {
        const std::int32_t one = number(places[k]);
        if (one < 0 || (one < end - begin) != own) continue;
        to.col.push_back(one), to.values.push_back(values[k]);
      }
    to.row_ptr.push_back(std::ssize(to.col));
  }
};

void sort_out(std::vector<std::int32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Rows that parts have contributed to one after another: entries of the same column are added in that order.
template <class T>
PartRows<T> added(std::int64_t rows, std::int64_t begin, const std::vector<PartRows<T>>& contributions,
                  const std::vector<std::vector<std::int32_t>>& places) {
  std::vector<std::vector<std::pair<std::int32_t, T>>> of_row(at(rows));
  for (std::size_t c = 0; c < contributions.size(); ++c)
    for (std::size_t r = 0; r < places[c].size(); ++r) {
      const auto row = contributions[c].row(static_cast<std::int64_t>(r));
      const T* const values = values_of(contributions[c], static_cast<std::int64_t>(r));
      for (std::size_t k = 0; k < row.size(); ++k)
        of_row[at(places[c][r] - begin)].emplace_back(row[k], values[k]);
    }
  PartRows<T> made;
  for (auto& row : of_row) {
    std::stable_sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < row.size(); ++k)
      if (k > 0 && row[k].first == row[k - 1].first)
        made.values.back() += row[k].second;
      else
        made.col.push_back(row[k].first), made.values.push_back(row[k].second);
    made.row_ptr.push_back(std::ssize(made.col));
    row = {};
  }
  return made;
}

}  // namespace

template <class T>
PartLevels<T>::PartLevels(Communicator& all, ContextPtr host, const PreconditionerOptions& options,
                          std::vector<std::int64_t> begins, PartRows<T> rows, const PartHalo& halo,
                          Nodes nodes)
    : all_(all),
      host_(std::move(host)),
      options_(options),
      begins_(std::move(begins)),
      given_(std::move(rows)),
      nodes_(std::move(nodes)) {
  const auto parts = static_cast<std::size_t>(all_.parts());
  sent_.resize(parts);
  for (const HaloNeighbour& one : halo.neighbours) {
    std::vector<std::int32_t>& to = sent_[static_cast<std::size_t>(one.part)];
    for (const std::int32_t row : one.send) to.push_back(nodes_.of[at(row)]);
    sort_out(to);
  }
  import_ghosts();
  require_finite_entries<T>(*host_, own_, "amg");
  diagonal_ = usable_diagonal<T>("amg", host_, own_, options_.zero_diagonal);
  scale_.resize(at(own_.rows()));
  for (std::int64_t i = 0; i < own_.rows(); ++i) scale_[at(i)] = std::abs(static_cast<double>(diagonal_[i]));
}

template <class T>
void PartLevels<T>::import_ghosts() {
  const std::int64_t begin = first_row(), rows = given_.rows();
  std::vector<PartMessage> to(sent_.size());
  for (std::size_t p = 0; p < sent_.size(); ++p) {
    if (sent_[p].empty()) continue;
    std::vector<std::int32_t> first, size;
    PartRows<T> sent;
    for (const std::int32_t node : sent_[p]) {
      first.push_back(static_cast<std::int32_t>(begin + nodes_.first[at(node)]));
      size.push_back(nodes_.first[at(node + 1)] - nodes_.first[at(node)]);
      for (std::int64_t r = nodes_.first[at(node)]; r < nodes_.first[at(node + 1)]; ++r)
        append(sent, given_.row(r), values_of(given_, r));
    }
    write(to[p], first), write(to[p], size), write_rows(to[p], sent);
  }
  const std::vector<PartMessage> from = all_.exchanged(std::move(to));
  ghosts_.clear(), ghost_first_.assign(1, 0);
  std::vector<PartRows<T>> rows_of_ghosts;
  for (const PartMessage& message : from) {
    if (message.empty()) continue;
    MessageReader reader(message);
    const auto first = reader.read<std::int32_t>(), size = reader.read<std::int32_t>();
    for (std::size_t k = 0; k < first.size(); ++k) {
      for (std::int32_t r = 0; r < size[k]; ++r) ghosts_.push_back(first[k] + r);
      ghost_first_.push_back(ghost_first_.back() + size[k]);
    }
    rows_of_ghosts.push_back(read_rows<T>(reader));
  }
  const Columns columns{begin, begin + rows, ghosts_};
  PartRows<T> merged;
  for (std::int64_t r = 0; r < rows; ++r) columns.add(merged, given_.row(r), values_of(given_, r));
  for (const PartRows<T>& some : rows_of_ghosts)
    for (std::int64_t r = 0; r < some.rows(); ++r) columns.add(merged, some.row(r), values_of(some, r));
  with_ghosts_ = csr_of_rows<T>(host_, std::move(merged), rows + std::ssize(ghosts_));
  own_ = first_rows(with_ghosts_, rows);
}

template <class T>
void PartLevels<T>::fill(std::vector<double>& x) const {
  std::vector<PartMessage> to(sent_.size());
  for (std::size_t p = 0; p < sent_.size(); ++p) {
    if (sent_[p].empty()) continue;
    std::vector<double> values;
    for (const std::int32_t node : sent_[p])
      values.insert(values.end(), x.begin() + nodes_.first[at(node)], x.begin() + nodes_.first[at(node + 1)]);
    write(to[p], values);
  }
  auto next = x.begin() + own_.rows();
  for (const PartMessage& message : all_.exchanged(std::move(to))) {
    if (message.empty()) continue;
    const std::vector<double> values = MessageReader(message).read<double>();
    next = std::copy(values.begin(), values.end(), next);
  }
}

template <class T>
Vector<T> PartLevels<T>::l1() const {
  return l1_inverse<T>(host_, own_, diagonal_, scale_);
}

// Of the nodes of this part alone.
template <class T>
std::shared_ptr<Structure> PartLevels<T>::structure(double strength) const {
  Nodes both;
  both.first = nodes_.first;
  for (std::size_t k = 1; k < ghost_first_.size(); ++k)
    both.first.push_back(static_cast<std::int32_t>(own_.rows() + ghost_first_[k]));
  both.number_rows();
  for (int halved = 0;; ++halved, strength /= 2) {
    strong_ = strong_couplings<T>(*host_, with_ghosts_, both.first, both.of, strength);
    double alone = 0;
    for (std::int64_t i = 0; i < nodes_.count(); ++i) alone += strong_.row(i).empty();
    double all_alone = 0, all_nodes = 0;
    const std::vector<double> of_parts = all_.gathered({alone, static_cast<double>(nodes_.count())});
    for (std::size_t k = 0; k < of_parts.size(); k += 2)
      all_alone += of_parts[k], all_nodes += of_parts[k + 1];
    if (halved == most_halvings || 2 * all_alone <= all_nodes) break;
  }
  auto found = std::make_shared<Structure>();
  Structure& made = *found;
  made.strong = collect_rows(*host_, nodes_.count(), strong_.size(),
                             [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
                               for (std::int64_t i = rows.begin; i < rows.end; ++i) {
                                 const std::size_t before = col.size();
                                 for (const std::int32_t j : strong_.row(i))
                                   if (j < nodes_.count()) col.push_back(j);
                                 size[i - rows.begin] = static_cast<std::int64_t>(col.size() - before);
                               }
                             });
  made.aggregates = aggregate(*host_, made.strong);
  for (std::int64_t i = 0; i < nodes_.count(); ++i)
    if (made.aggregates.of[at(i)] < 0 && !strong_.row(i).empty())
      made.aggregates.of[at(i)] = static_cast<std::int32_t>(made.aggregates.count++);
  orthogonalise(*host_, nodes_, made);
  double coarse = 0;
  for (const double one : all_.gathered({static_cast<double>(made.coarse.rows())})) coarse += one;
  if (coarse == 0 || coarse > least_coarsening * static_cast<double>(all_rows())) return nullptr;
  return found;
}

template <class T>
struct PartLevels<T>::Ends {
  Nodes nodes;  // of this part, then of the ghosts
  std::shared_ptr<Structure> structure =
      std::make_shared<Structure>();  // the same; its coarse columns are of this part, then of the ghosts
  std::vector<std::int32_t> other;    // the places of the coarse columns of the ghosts
};

template <class T>
typename PartLevels<T>::Ends PartLevels<T>::with_ghosts(const Structure& own,
                                                        std::span<const std::int64_t> coarse_begins) const {
  const std::int64_t coarse_begin = coarse_begins[static_cast<std::size_t>(all_.part())];
  std::vector<PartMessage> to(sent_.size());
  for (std::size_t p = 0; p < sent_.size(); ++p) {
    if (sent_[p].empty()) continue;
    std::vector<std::int32_t> first, size;  // of the coarse columns of each node
    std::vector<double> tentative;
    for (const std::int32_t node : sent_[p]) {
      const std::int32_t a = own.aggregates.of[at(node)];
      first.push_back(a < 0 ? -1 : static_cast<std::int32_t>(coarse_begin + own.coarse.first[at(a)]));
      size.push_back(a < 0 ? 0 : own.coarse.first[at(a + 1)] - own.coarse.first[at(a)]);
      tentative.insert(tentative.end(), own.tentative.begin() + own.tentative_ptr[at(nodes_.first[at(node)])],
                       own.tentative.begin() + own.tentative_ptr[at(nodes_.first[at(node + 1)])]);
    }
    write(to[p], first), write(to[p], size), write(to[p], tentative);
  }
  const std::vector<PartMessage> from = all_.exchanged(std::move(to));
  std::vector<std::int32_t> first, size;
  std::vector<double> tentative;
  for (const PartMessage& message : from) {
    if (message.empty()) continue;
    MessageReader reader(message);
    const auto add = [](auto& list, const auto& more) { list.insert(list.end(), more.begin(), more.end()); };
    add(first, reader.read<std::int32_t>()), add(size, reader.read<std::int32_t>());
    add(tentative, reader.read<double>());
  }
  Ends made;
  made.nodes.first = nodes_.first;
  Structure& both = *made.structure;
  // A place has one aggregate, and aggregates have ascending places.
  std::vector<std::pair<std::int32_t, std::int32_t>> aggregates;
  for (std::size_t k = 0; k < first.size(); ++k)
    if (first[k] >= 0) aggregates.emplace_back(first[k], size[k]);
  std::sort(aggregates.begin(), aggregates.end());
  aggregates.erase(std::unique(aggregates.begin(), aggregates.end()), aggregates.end());
  both.strong = strong_;
  both.aggregates = own.aggregates, both.coarse.first = own.coarse.first;
  both.tentative = own.tentative, both.tentative_ptr = own.tentative_ptr;
  for (const auto& [begin, columns] : aggregates) {
    both.coarse.first.push_back(both.coarse.first.back() + columns);
    for (std::int32_t c = 0; c < columns; ++c) made.other.push_back(begin + c);
  }
  for (std::size_t k = 0; k < first.size(); ++k) {
    made.nodes.first.push_back(static_cast<std::int32_t>(own_.rows() + ghost_first_[k + 1]));
    const auto found = std::lower_bound(aggregates.begin(), aggregates.end(), std::pair(first[k], size[k]));
    both.aggregates.of.push_back(
        first[k] < 0 ? -1 : static_cast<std::int32_t>(own.aggregates.count + (found - aggregates.begin())));
    for (std::int32_t r = ghost_first_[k]; r < ghost_first_[k + 1]; ++r)
      both.tentative_ptr.push_back(both.tentative_ptr.back() + size[k]);
  }
  both.tentative.insert(both.tentative.end(), tentative.begin(), tentative.end());
  both.aggregates.count += std::ssize(aggregates);
  made.nodes.number_rows();
  return made;
}

template <class T>
PartMatrix<T> PartLevels<T>::distributed(const PartRows<T>& rows,
                                         std::span<const std::int64_t> begins) const {
  const auto part = static_cast<std::size_t>(all_.part());
  PartMatrix<T> made;
  made.halo = std::make_unique<PartHalo>(halo_without_neighbours(rows, begins[part], begins[part + 1]));
  find_neighbours(all_, begins, *made.halo);
  made.blocks = blocks_of_rows<T>(host_, rows, *made.halo, begins[part], begins[part + 1]);
  return made;
}

template <class T>
std::optional<typename PartLevels<T>::Step> PartLevels<T>::coarsen(double strength) {
  const std::shared_ptr<const Structure> found = structure(strength);
  if (!found) return std::nullopt;
  const std::int64_t rows = own_.rows(), coarse_rows = found->coarse.rows();
  const auto part = static_cast<std::size_t>(all_.part());
  std::vector<std::int64_t> coarse_begins = {0};
  for (const double one : all_.gathered({static_cast<double>(coarse_rows)}))
    coarse_begins.push_back(coarse_begins.back() + static_cast<std::int64_t>(one));
  Nodes coarse_nodes = found->coarse;
  std::vector<double> next_scale = coarse_scale(scale_, nodes_, *found);

  // P, with the columns of this part and those of its ghosts.
  const Ends ends = with_ghosts(*found, coarse_begins);
  Graph pattern = prolongator_pattern(*host_, ends.nodes, *ends.structure);
  pattern.ptr.resize(at(rows) + 1), pattern.col.resize(at(pattern.ptr.back()));
  Structure& structure = *ends.structure;
  structure.P = std::make_shared<const Graph>(std::move(pattern));
  const auto combined = [&](double mine, auto&& combine) {
    const std::vector<double> of_all = all_.gathered({mine});
    return std::accumulate(of_all.begin() + 1, of_all.end(), of_all.front(), combine);
  };
  const OtherParts others{
      [&](std::vector<double>& x) { fill(x); },
      [&](double one) { return combined(one, std::plus<double>()); },
      [&](double one) { return combined(one, [](double a, double b) { return std::max(a, b); }); }};
  const std::vector<double> divided = divisors<T>(diagonal_, scale_);
  const double omega = prolongator_omega<T>(*host_, own_, divided, others);
  Buffer<T> values = prolongator_values<T>(host_, own_, divided, omega, ends.nodes, structure);
  const Columns near{coarse_begins[part], coarse_begins[part + 1], ends.other};
  PartRows<T> P;  // columns are places
  {
    const Graph& graph = *structure.P;
    std::vector<std::pair<std::int32_t, T>> row;
    for (std::int64_t i = 0; i < rows; ++i) {
      row.clear();
      for (std::int64_t k = graph.ptr[at(i)]; k < graph.ptr[at(i + 1)]; ++k)
        row.emplace_back(near.place(graph.col[at(k)]), values[k]);
      std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [place, value] : row) P.col.push_back(place), P.values.push_back(value);
      P.row_ptr.push_back(std::ssize(P.col));
    }
  }

  // Its rows of the ghosts, for A P.
  std::vector<PartMessage> to(sent_.size());
  for (std::size_t p = 0; p < sent_.size(); ++p) {
    if (sent_[p].empty()) continue;
    PartRows<T> sent;
    for (const std::int32_t node : sent_[p])
      for (std::int64_t r = nodes_.first[at(node)]; r < nodes_.first[at(node + 1)]; ++r)
        append(sent, P.row(r), values_of(P, r));
    write_rows(to[p], sent);
  }
  std::vector<PartRows<T>> of_ghosts;
  for (const PartMessage& message : all_.exchanged(std::move(to)))
    if (!message.empty()) {
      MessageReader reader(message);
      of_ghosts.push_back(read_rows<T>(reader));
    }
  std::vector<std::int32_t> far = ends.other;
  for (const PartRows<T>& some : of_ghosts)
    for (const std::int32_t place : some.col)
      if (place < near.begin || place >= near.end) far.push_back(place);
  sort_out(far);
  const Columns columns{near.begin, near.end, far};
  const std::int64_t width = coarse_rows + std::ssize(far);
  PartRows<T> all_of_P;
  for (std::int64_t r = 0; r < rows; ++r) columns.add(all_of_P, P.row(r), values_of(P, r));
  for (const PartRows<T>& some : of_ghosts)
    for (std::int64_t r = 0; r < some.rows(); ++r) columns.add(all_of_P, some.row(r), values_of(some, r));
  const CsrMatrix<T> P_there = csr_of_rows<T>(host_, std::move(all_of_P), width);
  const CsrMatrix<T> R_here = transpose(host_, first_rows(P_there, rows));
  const auto product = [&](const CsrMatrix<T>& A, const CsrMatrix<T>& B) {
    auto graph = std::make_shared<const Graph>(product_pattern(*host_, A.pattern, B.pattern));
    Buffer<T> entries = product_values(host_, A, B, *graph);
    return matrix_of<T>(std::move(graph), B.cols(), std::move(entries));
  };
  const CsrMatrix<T> here = product(R_here, product(own_, P_there));

  // Rows of P^T and of P^T A P go to the part that has them.
  std::vector<PartRows<T>> of_R(sent_.size()), of_A(sent_.size());
  std::vector<std::vector<std::int32_t>> places(sent_.size());
  for (std::int64_t c = 0; c < width; ++c) {
    if (R_here.pattern.row_length(c) == 0) continue;
    const std::int32_t place = columns.place(static_cast<std::int32_t>(c));
    const auto owner = static_cast<std::size_t>(part_of_place(coarse_begins, place));
    places[owner].push_back(place);
    std::vector<std::int32_t> col;
    for (const std::int32_t i : R_here.pattern.row(c))
      col.push_back(static_cast<std::int32_t>(first_row() + i));
    append<T>(of_R[owner], col, R_here.values + R_here.pattern.row_ptr[c]);
    col.clear();
    for (const std::int32_t k : here.pattern.row(c)) col.push_back(columns.place(k));
    append<T>(of_A[owner], col, here.values + here.pattern.row_ptr[c]);
  }
  to.assign(sent_.size(), {});
  for (std::size_t p = 0; p < sent_.size(); ++p)
    if (!places[p].empty()) write(to[p], places[p]), write_rows(to[p], of_R[p]), write_rows(to[p], of_A[p]);
  std::vector<PartRows<T>> to_R, to_A;
  places.clear();
  for (const PartMessage& message : all_.exchanged(std::move(to))) {
    if (message.empty()) continue;
    MessageReader reader(message);
    places.push_back(reader.read<std::int32_t>());
    to_R.push_back(read_rows<T>(reader)), to_A.push_back(read_rows<T>(reader));
  }
  Step step;
  step.P = distributed(P, coarse_begins);
  step.R = distributed(added(coarse_rows, near.begin, to_R, places), begins_);
  PartRows<T> next = added(coarse_rows, near.begin, to_A, places);
  step.A = distributed(next, coarse_begins);

  const std::int64_t bad = first_not_finite<T>(*host_, next.values.data(), std::ssize(next.values));
  if (combined(bad < std::ssize(next.values) ? 1 : 0, std::plus<double>()) > 0)
    throw BadMatrix(fmt::format(
        "amg: the matrix of a coarser level has entries that are not finite, since products of entries of this "
        "matrix are too large for {} precision; scale the matrix (D A D with d_i = 1 / sqrt |a_ii|), or use "
        "another preconditioner",
        sizeof(T) == 8 ? "double" : "single"));
  begins_ = std::move(coarse_begins), given_ = std::move(next), nodes_ = std::move(coarse_nodes);
  scale_ = std::move(next_scale);
  for (auto& list : sent_) list.clear();
  for (const HaloNeighbour& one : step.A.halo->neighbours) {
    std::vector<std::int32_t>& list = sent_[static_cast<std::size_t>(one.part)];
    for (const std::int32_t row : one.send) list.push_back(nodes_.of[at(row)]);
    sort_out(list);
  }
  import_ghosts();
  diagonal_ = Vector<T>(host_, own_.rows());
  extract_diagonal<T>(*host_, own_, diagonal_.data());
  return step;
}

template <class T>
WholeLevel<T> PartLevels<T>::whole() const {
  PartMessage mine;
  write_rows(mine, given_), write(mine, nodes_.first), write(mine, nodes_.values);
  PartRows<T> rows;
  WholeLevel<T> made;
  made.nodes.vectors = nodes_.vectors, made.nodes.first = {0};
  for (const PartMessage& message :
       all_.exchanged(std::vector<PartMessage>(static_cast<std::size_t>(all_.parts()), mine))) {
    MessageReader reader(message);
    const PartRows<T> some = read_rows<T>(reader);
    for (std::int64_t r = 0; r < some.rows(); ++r) append(rows, some.row(r), values_of(some, r));
    const auto first = reader.read<std::int32_t>();
    const std::int32_t before = made.nodes.first.back();
    for (std::size_t k = 1; k < first.size(); ++k) made.nodes.first.push_back(before + first[k]);
    const auto values = reader.read<double>();
    made.nodes.values.insert(made.nodes.values.end(), values.begin(), values.end());
  }
  made.csr = csr_of_rows<T>(host_, std::move(rows), all_rows());
  const std::vector<std::int32_t>& first = made.nodes.first;
  made.unknowns = first.size() > 1 ? first[1] : 1;
  bool even = true;
  for (std::size_t k = 1; even && k < first.size(); ++k) even = first[k] - first[k - 1] == made.unknowns;
  if (even) made.nodes.first.clear();
  return made;
}

template class PartLevels<float>;
template class PartLevels<double>;

}  // namespace protean::detail
