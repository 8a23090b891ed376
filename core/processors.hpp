// How many processors this process may use.
#pragma once
#include <sched.h>

#include <string>
#include <vector>

namespace protean::detail {

// A set of processors, of any size.
class ProcessorSet {
 public:
  // The processors that the calling thread may run on. If the program's OpenMP run time binds its threads to places
  // (OMP_PROC_BIND), the calling thread may have only a few of them: then the processors of all places.
  static ProcessorSet usable();
  int count() const noexcept;
  // Lets the calling thread run on these; whether the system agreed.
  bool apply() const noexcept;

 private:
  std::vector<cpu_set_t> words_;
};

// The processors' worth of time that the control groups of this process grant, rounded up; 0 if they set no
// limit. Version 2: cpu.max; version 1: cpu.cfs_quota_us and cpu.cfs_period_us; the least of the process' own group and
// the groups above it. System files are read below the folder `root` (tests).
int quota_processors(const std::string& root = {});

// The processors that this process may use, at least 1: usable(), or what the control groups grant, if that is less.
int usable_processors();

// The first number in the value of OMP_NUM_THREADS, 0 if it has none.
int first_number_of_threads(const char* value) noexcept;

}  // namespace protean::detail
