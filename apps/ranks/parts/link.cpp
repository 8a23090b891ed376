#include "apps/ranks/parts/link.hpp"

#include <algorithm>
#include <utility>

namespace protean::apps::ranks {
namespace {

MPI_Datatype type_of(double) noexcept { return MPI_DOUBLE; }
MPI_Datatype type_of(float) noexcept { return MPI_FLOAT; }

// values[k] := the sum of values[k] of all ranks, added one after another.
template <class T>
void add(MPI_Comm comm, std::vector<T>& all, T* values, int count, int ranks) {
  const auto width = static_cast<std::size_t>(count);
  if (all.size() < width * static_cast<std::size_t>(ranks))
    all.resize(width * static_cast<std::size_t>(ranks));
  MPI_Allgather(values, count, type_of(T()), all.data(), count, type_of(T()), comm);
  std::copy_n(all.data(), width, values);
  for (std::size_t p = 1; p < static_cast<std::size_t>(ranks); ++p)
    for (std::size_t k = 0; k < width; ++k) values[k] += all[p * width + k];
}

}  // namespace

RankLink::RankLink(MPI_Comm comm, std::vector<PetscInt> numbers) : numbers_(std::move(numbers)) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_rank(comm_, &rank_), MPI_Comm_size(comm_, &count_);
  const auto own = static_cast<std::int64_t>(numbers_.size());
  std::vector<std::int64_t> all(static_cast<std::size_t>(count_));
  MPI_Allgather(&own, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, comm_);
  for (int p = 0; p < count_; ++p) {
    if (p < rank_) first_ += all[static_cast<std::size_t>(p)];
    rows_ += all[static_cast<std::size_t>(p)];
  }
}

RankLink::~RankLink() { MPI_Comm_free(&comm_); }

void RankLink::sum(const Context&, double* values, int count) { add(comm_, all_, values, count, count_); }
void RankLink::sum(const Context&, float* values, int count) { add(comm_, all_f32_, values, count, count_); }

void RankLink::largest(const Context&, double* value) {
  double found = 0;
  for (const double one : gathered({*value}))  // a NaN, once found, stays
    if (!(one <= found)) found = found != found ? found : one;
  *value = found;
}
void RankLink::largest(const Context& context, float* value) {
  double number = static_cast<double>(*value);
  largest(context, &number);
  *value = static_cast<float>(number);
}

std::vector<double> RankLink::gathered(const std::vector<double>& numbers) {
  const auto count = static_cast<int>(numbers.size());
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(count_));
  MPI_Allgather(numbers.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, comm_);
  return all;
}

// Point to point, since the bytes of all messages of a rank may be more than an int counts.
std::vector<detail::PartMessage> RankLink::exchanged(std::vector<detail::PartMessage> to) {
  const auto ranks = static_cast<std::size_t>(count_);
  std::vector<std::int64_t> sizes(ranks), theirs(ranks);
  for (std::size_t p = 0; p < ranks; ++p) sizes[p] = std::ssize(to[p]);
  MPI_Alltoall(sizes.data(), 1, MPI_INT64_T, theirs.data(), 1, MPI_INT64_T, comm_);
  std::vector<detail::PartMessage> from(ranks);
  std::vector<MPI_Request> requests;
  constexpr std::int64_t most = std::int64_t{1} << 30;  // bytes of a message
  const auto pieces = [&](detail::PartMessage& message, auto&& f) {
    for (std::int64_t at = 0; at < std::ssize(message); at += most)
      f(message.data() + at, static_cast<int>(std::min(most, std::ssize(message) - at)));
  };
  for (int p = 0; p < count_; ++p) {
    const auto place = static_cast<std::size_t>(p);
    if (p == rank_) {
      from[place] = std::move(to[place]);
      continue;
    }
    from[place].resize(static_cast<std::size_t>(theirs[place]));
    pieces(from[place], [&](std::byte* data, int size) {
      MPI_Irecv(data, size, MPI_BYTE, p, 0, comm_, &requests.emplace_back());
    });
  }
  for (int p = 0; p < count_; ++p)
    if (p != rank_)
      pieces(to[static_cast<std::size_t>(p)], [&](std::byte* data, int size) {
        MPI_Isend(data, size, MPI_BYTE, p, 0, comm_, &requests.emplace_back());
      });
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return from;
}

RankExchange::RankExchange(MPI_Comm comm, const detail::PartHalo& halo)
    : halo_(halo), sent_(static_cast<std::size_t>(halo.sent())), arrived_(halo.ghosts.size()) {
  MPI_Comm_dup(comm, &comm_);
  requests_.reserve(2 * halo.neighbours.size());
}

RankExchange::~RankExchange() {
  // Messages of a product that has failed on this rank.
  for (MPI_Request& one : requests_) MPI_Cancel(&one), MPI_Request_free(&one);
  MPI_Comm_free(&comm_);
}

void RankExchange::begin(VectorView<const double> x) {
  for (const detail::HaloNeighbour& from : halo_.neighbours)
    if (from.ghosts > 0)
      MPI_Irecv(arrived_.data() + from.first_ghost, static_cast<int>(from.ghosts), MPI_DOUBLE, from.part, 0,
                comm_, &requests_.emplace_back());
  double* next = sent_.data();
  for (const detail::HaloNeighbour& to : halo_.neighbours) {
    if (to.send.empty()) continue;
    double* const message = next;
    for (const std::int32_t row : to.send) *next++ = x.data[row];
    MPI_Isend(message, static_cast<int>(to.send.size()), MPI_DOUBLE, to.part, 0, comm_,
              &requests_.emplace_back());
  }
}

void RankExchange::end(VectorView<double> ghosts) {
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
  std::copy_n(arrived_.data(), ghosts.size, ghosts.data);
}

}  // namespace protean::apps::ranks
