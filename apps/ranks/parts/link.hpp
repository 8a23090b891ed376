// A part of a distributed system on each rank, as vector operations and products see it: sums over all ranks, and the
// exchange of the halo, by MPI.
#pragma once
#include <petscsys.h>  // MPI as PETSc has it

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/communicator.hpp"
#include "distributed/halo.hpp"
#include "distributed/halo_exchange.hpp"

namespace protean::apps::ranks {

// Each rank gets the numbers of all ranks and adds them in the order of the ranks, so all have the same bits, and so
// has the next run.
class RankLink final : public detail::Communicator {
 public:
  // numbers: the caller's number of each row of this rank. Collective.
  RankLink(MPI_Comm comm, std::vector<PetscInt> numbers);
  ~RankLink() override;
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  MPI_Comm comm() const noexcept { return comm_; }
  int part() const noexcept override { return rank_; }
  int parts() const noexcept override { return count_; }
  std::int64_t rows() const noexcept override { return rows_; }
  std::int64_t first_row() const noexcept override { return first_; }
  std::int64_t number_of(std::int64_t row) const noexcept override {
    return numbers_[static_cast<std::size_t>(row)];
  }
  void sum(const Context& context, double* values, int count) override;
  void sum(const Context& context, float* values, int count) override;
  void largest(const Context& context, double* value) override;
  void largest(const Context& context, float* value) override;
  std::vector<double> gathered(const std::vector<double>& numbers) override;
  std::vector<detail::PartMessage> exchanged(std::vector<detail::PartMessage> to) override;

 private:
  const std::vector<PetscInt> numbers_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, count_ = 1;
  std::int64_t rows_ = 0, first_ = 0;
  std::vector<double> all_;  // of a sum
  std::vector<float> all_f32_;
};

// Messages to the neighbours that need entries of x, in a communicator of its own.
class RankExchange final : public detail::HaloExchange<double> {
 public:
  // The halo outlives it. Collective.
  RankExchange(MPI_Comm comm, const detail::PartHalo& halo);
  ~RankExchange() override;
  RankExchange(const RankExchange&) = delete;
  RankExchange& operator=(const RankExchange&) = delete;

  void begin(VectorView<const double> x) override;
  void end(VectorView<double> ghosts) override;

 private:
  const detail::PartHalo& halo_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<double> sent_, arrived_;
  std::vector<MPI_Request> requests_;  // of messages that are under way
};

}  // namespace protean::apps::ranks
