// What `protean doctor` looks at. Facts are gathered from the system; what follows from them is a function of the facts
// alone, so that a test needs no broken machine.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace protean::apps {

enum class Health : unsigned char { ok, warning, fault };
std::string_view to_string(Health health) noexcept;

struct Finding {
  std::string name = {};  // "threads"
  Health health = Health::ok;
  std::string text = {};    // what there is
  std::string advice = {};  // what to do; empty if nothing
};

struct ThreadFacts {
  int threads = 0;               // that a solve takes
  int online = 0, affinity = 0;  // processors of the machine, and how many of them this process may run on
  int quota = 0;                 // processors' worth of time that the control group grants; 0: no limit
  std::optional<std::string> asked = {};                            // OMP_NUM_THREADS
  std::vector<std::pair<std::string, std::string>> variables = {};  // other ones that say where threads run
};
ThreadFacts thread_facts();
Finding finding_of(const ThreadFacts& facts);

struct MemoryFacts {
  std::size_t total = 0, available = 0;  // bytes; available: without swapping, and within all limits
};
MemoryFacts memory_facts();
Finding finding_of(const MemoryFacts& facts);

// A folder that is written to.
struct FolderFacts {
  std::string name = {}, path = {}, used_by = {};
  std::string why_not = {};  // why no file of 64 KiB can be written there; empty if it can
  std::size_t free = 0;      // bytes
};
FolderFacts folder_facts(std::string name, std::string path, std::string used_by);
Finding finding_of(const FolderFacts& facts);

struct GpuFacts {
  bool in_build = false;           // this build has GPU code
  std::string kernel_driver = {};  // the version of the NVIDIA driver that the system has loaded; empty: none
  std::optional<std::string> visible = {};  // CUDA_VISIBLE_DEVICES
  int runtime = 0,
      driver = 0;          // versions of CUDA: of this build, and the newest of the driver (12040 is 12.4)
  std::string error = {};  // of the runtime
  std::vector<std::string> gpus = {};
};
// System files are read below the folder `root` (tests).
GpuFacts gpu_facts(const std::string& root = {});
Finding finding_of(const GpuFacts& facts);

struct MpiFacts {
  std::string ranks = {};        // the path of protean-ranks; empty: it is not there
  std::string library = {};      // what its MPI says of itself
  std::string why_not = {};      // why protean-ranks does not start; empty if it does
  std::string mpirun = {};       // the path of mpirun; empty: none
  std::string mpirun_says = {};  // what `mpirun --version` prints
};
MpiFacts mpi_facts();
Finding finding_of(const MpiFacts& facts);

// The table from which products and conversions are predicted.
struct TableFacts {
  std::string path = {};            // empty: the built-in table
  std::string error = {};           // why it cannot be read
  std::string machine = {};         // of which it is
  std::string here = {};            // this machine
  std::optional<double> days = {};  // since its last measurement; empty: it does not say
  bool writable = true;             // also of a contributed table, which nobody extends
};
TableFacts table_facts();
Finding finding_of(const TableFacts& facts);

}  // namespace protean::apps
