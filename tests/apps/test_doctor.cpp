// `protean doctor` names the cause in broken environments: as a function of facts, and where a test can break something
// without harm, in the command itself.
#include "apps/doctor/doctor.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "address_space_limit.hpp"
#include "apps/command/build_info.hpp"
#include "apps/command/launch.hpp"
#include "core/processors.hpp"
#include "support/command.hpp"
#include "support/text.hpp"

namespace protean::apps {
namespace {

using Json = nlohmann::json;
using test::has;

constexpr std::size_t gibibyte = std::size_t{1} << 30;

void expect(const Finding& found, Health health, std::string_view text, std::string_view advice) {
  EXPECT_EQ(found.health, health) << found.text;
  EXPECT_TRUE(has(found.text, text)) << found.text;
  EXPECT_TRUE(has(found.advice, advice)) << found.advice;
  EXPECT_EQ(found.advice.empty(), health == Health::ok)
      << "what is wrong has an advice, and nothing else has";
}

TEST(Doctor, SaysWhoHoldsThreads) {
  expect(finding_of(ThreadFacts{2, 2, 2, 0, {}, {}}), Health::ok, "2 threads on 2 processors", "");
  expect(finding_of(ThreadFacts{64, 2, 2, 0, "64", {}}), Health::warning, "OMP_NUM_THREADS=64",
         "64 threads share 2 processors, wait for each other, and a solve may take many times as long: set "
         "OMP_NUM_THREADS=2, or unset it.");
  expect(finding_of(ThreadFacts{2, 2, 2, 0, "many", {}}), Health::warning, "OMP_NUM_THREADS=many",
         "'many', which is not a number of threads, and is ignored");
  expect(finding_of(ThreadFacts{1, 8, 1, 0, {}, {{"OMP_PROC_BIND", "true"}}}), Health::warning,
         "affinity permits 1 of 8; OMP_PROC_BIND=true", "this process may run on 1 of 8 processors");
  expect(finding_of(ThreadFacts{4, 64, 64, 4, {}, {}}), Health::ok, "the control group grants the time of 4",
         "");
  expect(finding_of(ThreadFacts{8, 64, 64, 4, "8", {}}), Health::warning,
         "the control group grants the time of 4", "8 threads share 4 processors");
  expect(finding_of(ThreadFacts{1, 1, 1, 0, {}, {}}), Health::ok, "1 thread on 1 processor", "");
}

TEST(Doctor, SaysWhetherMemoryIsScarce) {
  expect(finding_of(MemoryFacts{16 * gibibyte, 8 * gibibyte}), Health::ok, "8.0 GiB of 16.0 GiB available",
         "");
  expect(finding_of(MemoryFacts{16 * gibibyte, gibibyte / 2}), Health::warning, "512.0 MiB", "the container");
  expect(finding_of(MemoryFacts{16 * gibibyte, gibibyte / 32}), Health::fault, "32.0 MiB", "ulimit -v");
}

TEST(Doctor, SaysWhyThereIsNoDevice) {
  const GpuFacts none{.in_build = true, .runtime = 12040, .error = "no CUDA-capable device is detected"};
  expect(finding_of(GpuFacts{}), Health::ok, "no NVIDIA driver is loaded, and this build has no GPU code",
         "");
  expect(finding_of(GpuFacts{.kernel_driver = "550.54.15"}), Health::warning,
         "NVIDIA driver 550.54.15 is loaded, but this build has no GPU code", "-DPROTEAN_CUDA=ON");
  expect(finding_of(none), Health::warning, "no device: no NVIDIA driver is loaded", "operator.space: host");
  GpuFacts old = none;
  old.kernel_driver = "520.61.05", old.driver = 11080, old.error = "CUDA driver version is insufficient";
  expect(finding_of(old), Health::fault,
         "the driver is too old: it supports CUDA 11.8, and this build needs CUDA 12.4",
         "Install a driver of CUDA 12.4 or newer");
  GpuFacts hidden = none;
  hidden.kernel_driver = "550.54.15", hidden.driver = 12040;
  for (const char* value : {"", "-1", "none"}) {
    hidden.visible = value;
    expect(finding_of(hidden), Health::warning, "hides all GPUs", "Unset CUDA_VISIBLE_DEVICES");
  }
  hidden.visible = "0";
  expect(finding_of(hidden), Health::fault, "no CUDA-capable device", "nvidia-smi");
  const GpuFacts good{.in_build = true,
                      .kernel_driver = "550.54.15",
                      .runtime = 12040,
                      .driver = 12040,
                      .gpus = {"NVIDIA H200, compute capability 9.0, 139.8 GiB"}};
  expect(finding_of(good), Health::ok, "NVIDIA H200", "");
}

TEST(Doctor, ComparesTheLauncherWithTheLibrary) {
  const std::string open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4\n",
                    hydra = "HYDRA build details:\n    Version:  4.0.2\n";
  expect(finding_of(MpiFacts{}), Health::ok, "not used", "");
  const MpiFacts good{"/lib/protean-ranks", open, "", "/usr/bin/mpirun", "mpirun (Open MPI) 4.1.4\n"};
  expect(finding_of(good), Health::ok, "Open MPI v4.1.4", "");
  MpiFacts wrong = good;
  wrong.mpirun_says = hydra;
  expect(finding_of(wrong), Health::fault,
         "/usr/bin/mpirun is of MPICH, but protean-ranks is linked with Open MPI",
         "call the mpirun of Open MPI");
  wrong.library = "MPICH Version:      4.0.2\n";
  expect(finding_of(wrong), Health::ok, "MPICH Version", "");
  wrong.mpirun_says = "some launcher 1.0";
  expect(finding_of(wrong), Health::warning, "says 'some launcher 1.0'", "must say 2 ranks");
  wrong.mpirun.clear();
  expect(finding_of(wrong), Health::warning, "no mpirun on PATH", "openmpi-bin");
  const MpiFacts broken{"/lib/protean-ranks", "",
                        "error while loading shared libraries: libmpi.so.40: no such file", "/usr/bin/mpirun",
                        hydra};
  expect(finding_of(broken), Health::fault, "libmpi.so.40", "Install the PETSc and the MPI");
}

TEST(Doctor, JudgesTheMachineTable) {
  TableFacts table{"m.yaml", "", "A, 2 threads", "A, 4 threads", 3.0, true};
  expect(finding_of(TableFacts{}), Health::ok, "built in", "");
  expect(finding_of(table), Health::ok, "m.yaml: of A, 2 threads, 3 days old", "");
  table.days = 800;
  expect(finding_of(table), Health::warning, "800 days old", "measure again");
  table.writable = false;
  expect(finding_of(table), Health::warning, "read-only", "cannot extend it");
  table.here = "B, 4 threads";
  expect(finding_of(table), Health::warning, "m.yaml", "another processor; this one is B");
  table.error = "m.yaml:3:1: not valid YAML";
  expect(finding_of(table), Health::fault, "m.yaml:3:1", "Unset PROTEAN_MACHINE");
}

TEST(Doctor, JudgesAFolder) {
  FolderFacts cache{"kernel cache", "/home/me/.nv/ComputeCache", "kernels that the driver has compiled"};
  cache.free = gibibyte;
  expect(finding_of(cache), Health::ok, "/home/me/.nv/ComputeCache, 1.0 GiB free", "");
  cache.free = gibibyte / 64;
  expect(finding_of(cache), Health::warning, "16.0 MiB free",
         "Little space is left for kernels that the driver has compiled");
  cache.why_not = "Permission denied";
  expect(finding_of(cache), Health::fault, "no file can be written there: Permission denied",
         "It is for kernels that the driver has compiled: make space or allow writing there");
}

TEST(Doctor, EndsWithTheWorst) {
  const Finding ok{"a", Health::ok, "", ""}, warning{"b", Health::warning, "", ""},
      fault{"c", Health::fault, "", ""};
  EXPECT_EQ(exit_code_of(std::vector{ok, ok}), 0);
  EXPECT_EQ(exit_code_of(std::vector{ok, warning, ok}), 1);
  EXPECT_EQ(exit_code_of(std::vector{fault, warning}), 3);
}

// The command in a broken environment. Other lines may have warnings of their own on the machine of the test.
class DoctorCommand : public test::CommandTest {
 protected:
  ~DoctorCommand() override {
    for (const auto& [name, before] : before_)
      before.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), before.c_str(), 1);
  }
  void set(const std::string& name, const std::string& value) {
    const char* const before = std::getenv(name.c_str());
    before_.emplace(name, before ? before : "");
    setenv(name.c_str(), value.c_str(), 1);
  }
  // The finding of this name; its health is one of the reasons of the exit code.
  Json examined(const std::string& name) {
    const test::Outcome o = run({"doctor", "--json"});
    const Json json = Json::parse(o.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << o.out << o.err;
    if (!json.is_object()) return {};
    const std::string worst = json["worst"];
    EXPECT_EQ(o.code, worst == "ok" ? 0 : worst == "warning" ? 1 : 3);
    for (const Json& one : json["findings"])
      if (one["name"] == name) return one;
    ADD_FAILURE() << "no finding " << name;
    return {};
  }
  void expect_command(const std::string& name, const std::string& health, std::string_view part) {
    const Json found = examined(name);
    EXPECT_EQ(found["health"], health) << found;
    EXPECT_TRUE(has(found.dump(), part)) << found;
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(DoctorCommand, ChecksAProductAndASolve) {
  expect_command("trial", "ok", "are right");
  const test::Outcome o = run({"doctor"});
  for (const char* part :
       {"processor", "threads", "memory", "GPU", "build", "Kokkos", "MKL", "METIS", "hypre", "MPI",
        "machine table", "temporary", "this folder", "trial", "warning", "fault"})
    EXPECT_TRUE(has(o.out, part)) << part;
  EXPECT_EQ(files().size(), 0u) << "it leaves no file";
  EXPECT_EQ(run({"doctor", "extra"}).code, 2);
}

TEST_F(DoctorCommand, FindsMoreThreadsThanProcessors) {
  const int usable = detail::usable_processors();
  set("OMP_NUM_THREADS", std::to_string(usable + 62));
  expect_command("threads", "warning", std::to_string(usable + 62) + " threads share");
}

TEST_F(DoctorCommand, FindsAVariableThatIsNoNumber) {
  set("OMP_NUM_THREADS", "many");
  expect_command("threads", "warning", "'many', which is not a number of threads");
}

TEST_F(DoctorCommand, FindsAnAffinityOfOneProcessor) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "this machine has one processor";
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  expect_command("threads", "warning", "this process may run on 1 of");
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST_F(DoctorCommand, FindsAFullFolder) {
  const std::string folder = (folder_ / "full").string();
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=32k") != 0)
    GTEST_SKIP() << "a file system of 32 KiB cannot be mounted here: " << std::strerror(errno);
  set("TMPDIR", folder);
  expect_command("temporary", "fault", "No space left on device");
  EXPECT_EQ(umount(folder.c_str()), 0);
}

TEST_F(DoctorCommand, FindsAFolderThatMayNotBeWritten) {
  const std::string folder = (folder_ / "closed").string();
  ASSERT_EQ(mkdir(folder.c_str(), 0500), 0);
  set("TMPDIR", folder);
  obeys_permissions_ = true;
  expect_command("temporary", "fault", "Permission denied");
}

TEST_F(DoctorCommand, FindsALimitOfTheMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more addresses than the limit has";
#endif
  set("OMP_NUM_THREADS", "2");  // each thread reserves a stack
  // Libraries, of which a build with CUDA has large ones, take a part of what is allowed.
  constexpr rlim_t step = rlim_t{256} << 20;
  rlim_t starts = step;
  for (; starts < 64 * step; starts += step) {
    const test::AddressSpaceLimit limit(starts);
    if (run({"--version"}).code == 0) break;
  }
  const test::AddressSpaceLimit limit(starts + 2 * step);
  expect_command("memory", "warning", "raise the limit of the container or of `ulimit -v`");
}

TEST_F(DoctorCommand, CannotStartWithoutTheLibraryOfOpenMP) {
  // A copy of the command that asks for a library of another name, which is nowhere.
  std::string program = test::slurp(PROTEAN_COMMAND);
  const std::string library = "libgomp.so.1", nowhere = "libgomp.so.0";
  const std::size_t at = program.find(library + '\0');
  if (at == std::string::npos) GTEST_SKIP() << "this command is linked with another library of OpenMP";
  program.replace(at, nowhere.size(), nowhere);
  write("protean", program);
  std::filesystem::permissions(work_ / "protean", std::filesystem::perms::owner_all);
  // What docs/doctor.md says of such a message.
  const std::string said = "error while loading shared libraries: " + nowhere + ": cannot open shared object";
  const int status =
      std::system(fmt::format("cd '{}' && ./protean doctor >out 2>err", work_.string()).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 127);
  EXPECT_TRUE(has(test::slurp(work_ / "err"), said)) << test::slurp(work_ / "err");
  EXPECT_EQ(test::slurp(work_ / "out"), "");
}

TEST_F(DoctorCommand, FindsWhatIsWrongWithTheTable) {
  set("PROTEAN_MACHINE", "m.yaml");
  write("m.yaml", "machine: x\nmatrices: [\n");
  expect_command("machine table", "fault", "m.yaml:");
  write("m.yaml", "machine: \"Another processor, 2 threads\"\nmatrices: []\n");
  expect_command("machine table", "warning", "another processor");
  write("m.yaml", "machine: \"" + machine_info().cpu + ", 2 threads\"\nmatrices: []\n");
  expect_command("machine table", "ok", "m.yaml: of ");
  chmod((work_ / "m.yaml").c_str(), 0400);
  obeys_permissions_ = true;
  expect_command("machine table", "warning", "cannot extend it");
  set("PROTEAN_MACHINE", "none.yaml");
  expect_command("machine table", "fault", "there is no such machine table");
}

TEST_F(DoctorCommand, FindsALauncherOfAnotherMpi) {
  const std::filesystem::path ranks = std::filesystem::path(PROTEAN_COMMAND).parent_path() / "protean-ranks";
  if (!std::filesystem::exists(ranks)) GTEST_SKIP() << "this build has no protean-ranks";
  const std::filesystem::path folder = folder_ / "bin";
  std::filesystem::create_directory(folder);
  const auto launcher = [&](const char* says) {
    std::ofstream(folder / "mpirun") << "#!/bin/sh\necho '" << says << "'\n";
    std::filesystem::permissions(folder / "mpirun", std::filesystem::perms::owner_all);
  };
  set("PATH", folder.string() + ":/usr/bin:/bin");
  launcher("Some launcher 1.0");
  const Json unknown = examined("MPI");
  EXPECT_EQ(unknown["health"], "warning") << unknown;
  const bool open = has(unknown["text"].get<std::string>(), "Open MPI");
  launcher(open ? "HYDRA build details:" : "mpirun (Open MPI) 4.1.4");
  expect_command("MPI", "fault", "Each process would solve alone");
  launcher(open ? "mpirun (Open MPI) 4.1.4" : "HYDRA build details:");
  expect_command("MPI", "ok", "mpirun");
  set("PATH", "/nowhere");
  expect_command("MPI", "warning", "no mpirun on PATH");
}

TEST_F(DoctorCommand, ReadsTheVersionOfALoadedDriver) {
  std::filesystem::create_directories(work_ / "proc/driver/nvidia");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n");
  EXPECT_EQ(gpu_facts(work_.string()).kernel_driver, "550.54.15");
  EXPECT_EQ(gpu_facts((work_ / "nowhere").string()).kernel_driver, "");
}

}  // namespace
}  // namespace protean::apps
