// Preloaded into the command (LD_PRELOAD): the n-th call of the system about files of one folder fails, is shortened,
// or kills the process. Environment variables say what it does:
//   PROTEAN_FAULT_FOLDER  only files under this folder count; nothing fails if it is not set
//   PROTEAN_FAULT_AT      the number of the call, from 1
//   PROTEAN_FAULT_KIND    the number of an error (errno): this call fails with it; "from:ERRNO": so do all later ones;
//                         "short": a read or write takes half of the bytes (at least one); "kill": SIGKILL before it
//   PROTEAN_FAULT_LOG     a file that has a line for each call: its number and name, and "!" at the fault
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Settings {
  std::array<char, 512> folder{};
  std::size_t folder_size = 0;
  long at = 0;
  int error = 0;
  bool from = false, shorter = false, kills = false;
  int log = -1;
  Settings() {
    const char* const where = std::getenv("PROTEAN_FAULT_FOLDER");
    if (!where) return;
    folder_size = std::min(std::strlen(where), folder.size() - 1);
    std::memcpy(folder.data(), where, folder_size);
    if (const char* const number = std::getenv("PROTEAN_FAULT_AT")) at = std::atol(number);
    const char* kind = std::getenv("PROTEAN_FAULT_KIND");
    if (!kind) kind = "5";
    if (std::strncmp(kind, "from:", 5) == 0) from = true, kind += 5;
    shorter = std::strcmp(kind, "short") == 0, kills = std::strcmp(kind, "kill") == 0;
    error = std::atoi(kind);
    if (const char* const path = std::getenv("PROTEAN_FAULT_LOG"))
      log = static_cast<int>(
          syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  }
};

const Settings& settings() {
  static const Settings read;
  return read;
}

bool counts(const char* path) {
  const Settings& s = settings();
  if (s.folder_size == 0 || !path) return false;
  if (path[0] == '/') return std::strncmp(path, s.folder.data(), s.folder_size) == 0;
  std::array<char, 512> here{};
  const long size = syscall(SYS_getcwd, here.data(), here.size());
  return size > 0 && std::strncmp(here.data(), s.folder.data(), s.folder_size) == 0;
}
bool counts(int file) {
  if (settings().folder_size == 0) return false;
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  std::array<char, 512> path{};
  const long size = syscall(SYS_readlinkat, AT_FDCWD, link.data(), path.data(), path.size() - 1);
  return size > 0 && path[0] == '/' && counts(path.data());
}

enum class Fate : unsigned char { goes_on, fails, is_short };

// Counts a call and says what becomes of it.
Fate fate(const char* name, bool counted, bool of_bytes = false) {
  if (!counted) return Fate::goes_on;
  static std::atomic<long> calls{0};
  const Settings& s = settings();
  const long number = ++calls;
  const bool due = s.at > 0 && (s.from ? number >= s.at : number == s.at);
  const bool happens = due && (!s.shorter || of_bytes);
  if (s.log >= 0) {
    std::array<char, 64> line{};
    const int size = std::snprintf(line.data(), line.size(), "%ld %s%s\n", number, name, happens ? " !" : "");
    (void)syscall(SYS_write, s.log, line.data(), static_cast<std::size_t>(size));
  }
  if (!happens) return Fate::goes_on;
  if (s.kills) (void)syscall(SYS_kill, getpid(), SIGKILL);
  if (s.shorter) return Fate::is_short;
  errno = s.error;
  return Fate::fails;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::size_t half(std::size_t bytes) {
  return std::max<std::size_t>(bytes / 2, std::min<std::size_t>(bytes, 1));
}

}  // namespace

#define SHOWN extern "C" __attribute__((visibility("default")))
// A call that has a result below 0 if it fails.
#define FAULTY(result_type, name, parameters, arguments, counted)                 \
  SHOWN result_type name parameters {                                             \
    static const auto original = real<result_type(*) parameters>(#name);          \
    if (fate(#name, counted) == Fate::fails) return static_cast<result_type>(-1); \
    return original arguments;                                                    \
  }
#define FAULTY_BYTES(name, parameters, arguments, counted)           \
  SHOWN ssize_t name parameters {                                    \
    static const auto original = real<ssize_t(*) parameters>(#name); \
    const Fate what = fate(#name, counted, true);                    \
    if (what == Fate::fails) return -1;                              \
    if (what == Fate::is_short) bytes = half(bytes);                 \
    return original arguments;                                       \
  }

FAULTY_BYTES(read, (int file, void* to, std::size_t bytes), (file, to, bytes), counts(file))
FAULTY_BYTES(write, (int file, const void* from, std::size_t bytes), (file, from, bytes), counts(file))
FAULTY_BYTES(pread, (int file, void* to, std::size_t bytes, off_t at), (file, to, bytes, at), counts(file))
FAULTY_BYTES(pwrite, (int file, const void* from, std::size_t bytes, off_t at), (file, from, bytes, at),
             counts(file))
FAULTY_BYTES(pread64, (int file, void* to, std::size_t bytes, off64_t at), (file, to, bytes, at),
             counts(file))
FAULTY_BYTES(pwrite64, (int file, const void* from, std::size_t bytes, off64_t at), (file, from, bytes, at),
             counts(file))
FAULTY(int, fsync, (int file), (file), counts(file))
FAULTY(int, ftruncate, (int file, off_t size), (file, size), counts(file))
FAULTY(int, fchmod, (int file, mode_t mode), (file, mode), counts(file))
FAULTY(int, flock, (int file, int what), (file, what), counts(file))
FAULTY(off_t, lseek, (int file, off_t at, int from), (file, at, from), counts(file))
FAULTY(int, rename, (const char* from, const char* to), (from, to), counts(to))
FAULTY(int, unlink, (const char* path), (path), counts(path))
FAULTY(int, truncate, (const char* path, off_t size), (path, size), counts(path))
FAULTY(int, linkat, (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags),
       counts(to))
FAULTY(int, stat, (const char* path, struct stat* status), (path, status), counts(path))
FAULTY(int, lstat, (const char* path, struct stat* status), (path, status), counts(path))
FAULTY(int, fstat, (int file, struct stat* status), (file, status), counts(file))
FAULTY(int, faccessat, (int at, const char* path, int mode, int flags), (at, path, mode, flags), counts(path))

// Closing takes place even if it fails.
SHOWN int close(int file) {
  static const auto original = real<int (*)(int)>("close");
  const bool fails = fate("close", counts(file)) == Fate::fails;
  const int code = errno;
  const int result = original(file);
  if (!fails) return result;
  errno = code;
  return -1;
}

SHOWN void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if (file >= 0 && fate("mmap", counts(file)) == Fate::fails) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

#define FAULTY_OPEN(name)                                                     \
  SHOWN int name(const char* path, int flags, ...) {                          \
    static const auto original = real<int (*)(const char*, int, ...)>(#name); \
    mode_t mode = 0;                                                          \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {         \
      va_list more;                                                           \
      va_start(more, flags);                                                  \
      mode = va_arg(more, mode_t);                                            \
      va_end(more);                                                           \
    }                                                                         \
    if (fate(#name, counts(path)) == Fate::fails) return -1;                  \
    return original(path, flags, mode);                                       \
  }
FAULTY_OPEN(open)
FAULTY_OPEN(open64)

// Streams of the standard library open files by this call; what they read and write then comes here, too.
#define FAULTY_FOPEN(name)                                                         \
  SHOWN FILE* name(const char* path, const char* mode) {                           \
    static const auto original = real<FILE* (*)(const char*, const char*)>(#name); \
    if (fate(#name, counts(path)) == Fate::fails) return nullptr;                  \
    return original(path, mode);                                                   \
  }
FAULTY_FOPEN(fopen)
FAULTY_FOPEN(fopen64)
