#include "apps/ranks/agree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <thread>

#include "apps/ranks/petsc_errors.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {
namespace {

constexpr int bad_input = 2, no_resources = 3;

[[noreturn]] void fail(int code, const std::string& text) {
  if (code == no_resources) throw NotAvailable(text);
  throw BadArgument(text);
}

}  // namespace

Fault fault_in_flight() noexcept {
  try {
    throw;
  } catch (const protean_types::Failure&) {
    const PetscMessage message = take_petsc_message();
    return {message.memory ? no_resources : bad_input, message.text};
  } catch (const OutOfMemory& error) {
    return {no_resources, error.what()};
  } catch (const NotAvailable& error) {
    return {no_resources, error.what()};
  } catch (const WriteFailed& error) { return {no_resources, error.what()}; } catch (const std::bad_alloc&) {
    return {no_resources, "out of memory; take more ranks, or machines with more"};
  } catch (const std::exception& error) { return {bad_input, error.what()}; } catch (...) {
    return {bad_input, "something was thrown that is not a std::exception"};
  }
}

Ranks::Ranks(MPI_Comm comm) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_dup(comm, &faults_);
  MPI_Comm_rank(comm_, &rank_), MPI_Comm_size(comm_, &count_);
}

Ranks::~Ranks() {
  MPI_Comm_free(&comm_);
  MPI_Comm_free(&faults_);
}

void Ranks::agree(const Fault& mine) const {
  const int own = mine.code != 0 ? rank_ : count_;
  int first = count_;
  MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, faults_);
  if (first == count_) return;
  std::int64_t told[2] = {mine.code, static_cast<std::int64_t>(mine.text.size())};
  MPI_Bcast(told, 2, MPI_INT64_T, first, faults_);
  std::string text = mine.text;
  text.resize(static_cast<std::size_t>(told[1]));
  MPI_Bcast(text.data(), static_cast<int>(told[1]), MPI_CHAR, first, faults_);
  const int same = mine.code != 0 && mine.text == text ? 1 : 0;
  int alike = 0;
  MPI_Allreduce(&same, &alike, 1, MPI_INT, MPI_MIN, faults_);
  fail(static_cast<int>(told[0]), alike != 0 ? text : fmt::format("rank {} of {}: {}", first, count_, text));
}

void Ranks::all_or_nothing(const Fault& mine) const {
  using namespace std::chrono_literals;
  MPI_Request all = MPI_REQUEST_NULL;
  MPI_Ibarrier(faults_, &all);
  // If several ranks have failed, the first one of them reports it and ends the others before they do.
  const auto patience = 500ms + std::min(rank_, 20) * 100ms;
  for (const auto begin = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() - begin < patience;) {
    int done = 0;
    MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    if (done != 0) return agree(mine);
    std::this_thread::sleep_for(5ms);
  }
  fmt::print(stderr, "protean: error: rank {} of {}: {}\n", rank_, count_, mine.text);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, mine.code);
  std::abort();
}

void Ranks::require_same(const std::string& text, const std::string& what) const {
  std::string of_first = text;
  auto size = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, comm_);
  of_first.resize(static_cast<std::size_t>(size));
  MPI_Bcast(of_first.data(), static_cast<int>(size), MPI_CHAR, 0, comm_);
  each([&] {
    if (text == of_first) return;
    const auto at = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), of_first.begin(), of_first.end()).first - text.begin());
    const std::size_t begin = at - std::min<std::size_t>(at, 20);
    throw BadArgument(fmt::format("{} is not the same as on rank 0: '{}' here, '{}' on rank 0", what,
                                  text.substr(begin, 60), of_first.substr(begin, 60)));
  });
}

std::vector<std::string> Ranks::gather(const std::string& text) const {
  const int size = static_cast<int>(text.size());
  std::vector<int> sizes(first() ? static_cast<std::size_t>(count_) : 0), at(sizes.size());
  MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, comm_);
  int all = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) at[k] = all, all += sizes[k];
  std::string joined(static_cast<std::size_t>(all), '\0');
  MPI_Gatherv(text.data(), size, MPI_CHAR, joined.data(), sizes.data(), at.data(), MPI_CHAR, 0, comm_);
  std::vector<std::string> texts;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    texts.push_back(joined.substr(static_cast<std::size_t>(at[k]), static_cast<std::size_t>(sizes[k])));
  return texts;
}

}  // namespace protean::apps::ranks
