#include "core/processors.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/control_groups.hpp"

namespace protean::detail {
namespace {

constexpr int set_bits = 8 * sizeof(cpu_set_t);

// time / period, 0 if there is no limit ("max" in version 2, -1 in version 1)
double quotient(double time, double period) { return time > 0 && period > 0 ? time / period : 0; }

double number_in(const std::string& path) {
  double value = 0;
  std::ifstream(path) >> value;
  return value;
}

double quota(const ControlGroup& group) {
  if (!group.unified)
    return quotient(number_in(group.folder + "/cpu.cfs_quota_us"),
                    number_in(group.folder + "/cpu.cfs_period_us"));
  double time = 0, period = 0;
  std::ifstream file(group.folder + "/cpu.max");
  return file >> time >> period ? quotient(time, period) : 0;
}

}  // namespace

ProcessorSet ProcessorSet::usable() {
  ProcessorSet set;
  // The kernel refuses a set that is too small for the machine.
  for (std::size_t words = 1; words <= 64; words *= 2) {
    set.words_.assign(words, cpu_set_t{});
    if (sched_getaffinity(0, words * sizeof(cpu_set_t), set.words_.data()) == 0) break;
  }
  if (omp_get_proc_bind() == omp_proc_bind_false) return set;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (const int id : ids)
      if (id >= 0 && id < set_bits * static_cast<int>(set.words_.size()))
        CPU_SET_S(static_cast<std::size_t>(id), set.words_.size() * sizeof(cpu_set_t), set.words_.data());
  }
  return set;
}

int ProcessorSet::count() const noexcept {
  return CPU_COUNT_S(words_.size() * sizeof(cpu_set_t), words_.data());
}

bool ProcessorSet::apply() const noexcept {
  return sched_setaffinity(0, words_.size() * sizeof(cpu_set_t), words_.data()) == 0;
}

int quota_processors(const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  for (const ControlGroup& group : control_groups("cpu", root))
    if (const double granted = quota(group); granted > 0) least = std::min(least, granted);
  return std::isfinite(least) ? static_cast<int>(std::ceil(std::min(least, 1e6))) : 0;
}

int usable_processors() {
  static const int quota = quota_processors();
  const int count = ProcessorSet::usable().count();
  return std::max(1, quota > 0 ? std::min(quota, count) : count);
}

int first_number_of_threads(const char* value) noexcept {
  const long number = value ? std::strtol(value, nullptr, 10) : 0;
  return number > 0 && number <= 1'000'000 ? static_cast<int>(number) : 0;
}

}  // namespace protean::detail
