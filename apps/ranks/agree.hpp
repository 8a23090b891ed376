// All ranks of a solve, and what they do about errors: none goes on into a collective call that another one misses.
#pragma once
#include <petscsys.h>  // MPI as PETSc has it

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace protean::apps::ranks {

// What went wrong on a rank. code: the exit code of the command, 0: nothing.
struct Fault {
  int code = 0;
  std::string text;
};
// The fault that belongs to the exception that is being handled.
Fault fault_in_flight() noexcept;

class Ranks {
 public:
  explicit Ranks(MPI_Comm comm);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  MPI_Comm comm() const noexcept { return comm_; }
  int rank() const noexcept { return rank_; }
  int count() const noexcept { return count_; }
  bool first() const noexcept { return rank_ == 0; }

  // Calls f, which may not communicate, on each rank. If it throws on any of them, all ranks throw the same: the
  // message of the first one that failed, with its number unless all failed alike. Throws NotAvailable for what is
  // missing (exit code 3), BadArgument for all else (2).
  template <class F>
  void each(F&& f) const {
    Fault mine;
    try {
      std::forward<F>(f)();
    } catch (...) { mine = fault_in_flight(); }
    agree(mine);
  }

  // Calls f, which communicates. The others may wait in a call that a rank whose f throws will not make; so that rank
  // ends all ranks, with one message and the exit code of the command. If all ranks throw, all throw as in each().
  template <class F>
  void all(F&& f) const {
    Fault mine;
    try {
      std::forward<F>(f)();
    } catch (...) { mine = fault_in_flight(); }
    if (mine.code != 0) all_or_nothing(mine);
  }

  // Throws BadArgument, with the first rank that differs from rank 0, unless all ranks have the same text. `what` is
  // its name: "the problem".
  void require_same(const std::string& text, const std::string& what) const;

  // The texts of all ranks on rank 0, empty elsewhere.
  std::vector<std::string> gather(const std::string& text) const;

 private:
  void agree(const Fault& mine) const;
  void all_or_nothing(const Fault& mine) const;

  MPI_Comm comm_ = MPI_COMM_NULL, faults_ = MPI_COMM_NULL;
  int rank_ = 0, count_ = 1;
};

}  // namespace protean::apps::ranks
