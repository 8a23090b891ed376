#include "core/io/atomic_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "core/io/input_file.hpp"

namespace protean {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{256} << 10;

// True if another path in the same folder would fail as well, today.
bool lacks_resources(int code) noexcept {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EPIPE:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void fail(const std::string& path, std::string_view deed, int code) {
  std::string_view advice;
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      advice = "; create the folder first, or choose another path";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      advice = "; choose a folder that may be written to";
      break;
    case ENOSPC:
    case EDQUOT:
      advice = "; free some space, or choose a path on another disk";
      break;
    case EFBIG:
      advice = "; raise the limit on file sizes (ulimit -f), or choose another file system";
      break;
    case ESPIPE:
      advice = "; it is written out of order, which needs an ordinary file";
      break;
    case EISDIR:
      advice = "; give the path of a file, not of a folder";
      break;
    default:
      break;
  }
  const std::string message = fmt::format("cannot {} '{}': {}{}", deed, path, std::strerror(code), advice);
  if (lacks_resources(code)) throw WriteFailed(message);
  throw Error(message);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The target of a link, so that the link itself is kept; the path itself for anything else. Throws Error for
// a link whose target does not exist. The target may lie in a folder that is not mounted now; replacing the
// link would hide that.
std::string follow(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (lacks_resources(errno)) fail(path, "write", errno);
    return path;
  }
  if (!S_ISLNK(status.st_mode)) return path;
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real) return real.get();
  const int code = errno;
  std::error_code ignored;
  throw Error(
      fmt::format("cannot write '{}': it is a link to '{}', which cannot be reached ({}); create that "
                  "file, or remove the link",
                  path, std::filesystem::read_symlink(path, ignored).string(), std::strerror(code)));
}

// Throws Error for an existing file that is read-only. A rename would replace it nevertheless.
void require_writable(const std::string& path, unsigned mode) {
  if ((mode & 0222) != 0) {
    if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return;
    if (errno != EACCES && errno != EPERM) fail(path, "write", errno);
  }
  throw Error(
      fmt::format("cannot write '{}': the file is read-only; allow writing (chmod u+w), or choose another "
                  "path",
                  path));
}

// The result of a system call that a signal may interrupt.
template <class Call>
int uninterrupted(Call&& call) noexcept {
  int result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

constexpr int most_names = 100;

// A name that this process has not used before. Another process may have left a file of this name; then the
// caller asks for the next name.
std::string next_name(const std::string& target) {
  static std::atomic<unsigned> next_number{0};
  return fmt::format("{}.{}.{}.tmp", target, getpid(), next_number++);
}

// Whether `name` is one that next_name() gives for a file called `base`, in any process.
bool is_temporary_of(std::string_view name, std::string_view base) noexcept {
  constexpr std::string_view ending = ".tmp";
  if (!name.starts_with(base) || !name.ends_with(ending) || name.size() < base.size() + ending.size())
    return false;
  std::string_view numbers = name.substr(base.size(), name.size() - base.size() - ending.size());
  for (int count = 0; count < 2; ++count) {
    if (!numbers.starts_with('.')) return false;
    numbers.remove_prefix(1);
    const std::size_t digits = std::min(numbers.find('.'), numbers.size());
    if (digits == 0) return false;
    for (const char c : numbers.substr(0, digits))
      if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
    numbers.remove_prefix(digits);
  }
  return numbers.empty();
}

// A file is locked from its beginning to its rename. The lock ends with its process, so a file with the name of a
// temporary one that is not locked has been left by a process that was killed. False if somebody has the lock, or
// if the file system has none.
bool lock(int file) noexcept {
  return uninterrupted([&] { return flock(file, LOCK_EX | LOCK_NB); }) == 0;
}

// Whether this open file still has the name.
bool has_name(int file, const std::string& name) noexcept {
  struct stat open_one {
  }, named{};
  return fstat(file, &open_one) == 0 && lstat(name.c_str(), &named) == 0 && S_ISREG(named.st_mode) &&
         open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

// Removes what killed processes have left next to `target`.
void remove_abandoned(const std::string& target) {
  const std::string folder = folder_of(target);
  const std::string_view base = std::string_view(target).substr(target.rfind('/') + 1);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  if (!entries) return;
  while (const dirent* const entry = readdir(entries.get())) {
    if (!is_temporary_of(entry->d_name, base)) continue;
    const std::string name = folder + "/" + entry->d_name;
    const int file =
        uninterrupted([&] { return open(name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
    if (file < 0) continue;
    if (lock(file) && has_name(file, name)) (void)unlink(name.c_str());
    close(file);
  }
}

std::string by_number(int file) { return fmt::format("/proc/self/fd/{}", file); }

// A file without a name. The system removes it when the process ends, unless give_name() was called. -1 where
// the file system has no such files.
int open_nameless(const std::string& folder) {
  const int file =
      uninterrupted([&] { return open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666); });
  if (file < 0) return file;
  (void)lock(file);
  if (access(by_number(file).c_str(), F_OK) == 0) return file;
  close(file);  // without /proc it could not be named
  return -1;
}

// Returns the name given; empty when the file could not be given a name, with the reason in errno.
std::string give_name(int file, const std::string& target) {
  for (int attempt = 0; attempt < most_names; ++attempt) {
    std::string name = next_name(target);
    if (linkat(AT_FDCWD, by_number(file).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
      return name;
    if (errno != EEXIST) break;
  }
  return {};
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (path_ == standard_output) {
    // The descriptor itself: if the shell has redirected it to a file, a rename would replace that file, and what
    // the process prints later would be lost.
    direct_ = true;
    file_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (file_ < 0) fail(path_, "write to the standard output,", errno);
    return;
  }
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (!exists && lacks_resources(errno)) fail(path_, "write", errno);
  if (exists && S_ISDIR(status.st_mode)) fail(path_, "write", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    if (io_detail::kind_of(path_) == io_detail::FileKind::named_pipe)
      throw Error(fmt::format(
          "cannot write '{}': it is a named pipe, which would wait for another program; choose an "
          "ordinary file, or a pipe of the shell: >(command)",
          path_));
    direct_ = true;
    file_ = uninterrupted([&] { return open(path_.c_str(), O_WRONLY | O_CLOEXEC); });
    if (file_ < 0) fail(path_, "open", errno);
    return;
  }
  target_ = follow(path_);
  if (exists) require_writable(path_, status.st_mode);
  folder_ = folder_of(target_);
  remove_abandoned(target_);
  file_ = open_nameless(folder_);
  for (int attempt = 0; file_ < 0; ++attempt) {
    temporary_ = next_name(target_);
    file_ = uninterrupted(
        [&] { return open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (file_ < 0 && (errno != EEXIST || attempt == most_names)) {
      const int code = errno;
      temporary_.clear();
      fail(path_, "create", code);
    }
    // Between these two calls another process may have taken it for an abandoned one.
    if (file_ >= 0 && !lock(file_) && errno == EWOULDBLOCK) close(std::exchange(file_, -1));
    if (file_ >= 0 && !has_name(file_, temporary_)) close(std::exchange(file_, -1));
    if (file_ < 0 && attempt == most_names) {
      temporary_.clear();
      fail(path_, "create", EBUSY);
    }
  }
  if (exists) (void)fchmod(file_, status.st_mode & 07777);  // a failure is not a reason to lose the content
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  file_ = -1, temporary_.clear();
}

// `write_some` writes some of the bytes, as write(2). If the system takes no bytes and reports no error, there is no
// space.
template <class WriteSome>
void AtomicFile::write_all(const char* data, std::size_t bytes, WriteSome&& write_some) {
  while (bytes > 0) {
    const ssize_t written = write_some(data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int code = written < 0 ? errno : ENOSPC;
      discard();
      fail(path_, "write", code);
    }
    data += written, bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::write_through(const char* data, std::size_t bytes) {
  write_all(data, bytes, [&](const char* from, std::size_t count) { return ::write(file_, from, count); });
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (file_ < 0) throw BadArgument("'" + path_ + "': nothing can be written after commit() or an error");
  if (buffer_.size() + bytes >= buffer_bytes) {
    write_through(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  if (bytes >= buffer_bytes)
    write_through(static_cast<const char*>(data), bytes);
  else
    buffer_.append(static_cast<const char*>(data), bytes);
}

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  if (file_ < 0) throw BadArgument("'" + path_ + "': nothing can be written after commit() or an error");
  write_all(static_cast<const char*>(data), bytes, [&](const char* from, std::size_t count) {
    const ssize_t written = pwrite(file_, from, count, static_cast<off_t>(offset));
    if (written > 0) offset += static_cast<std::uint64_t>(written);
    return written;
  });
}

void AtomicFile::commit() {
  if (file_ < 0) throw BadArgument("'" + path_ + "': commit() called twice or after an error");
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
  // Without fsync a crash soon after the rename could leave an empty file under the final name. Pipes and
  // devices cannot be flushed to a disk, which is not an error.
  if (!direct_ && uninterrupted([&] { return fsync(file_); }) != 0) {
    const int code = errno;
    discard();
    fail(path_, "write", code);
  }
  if (!direct_ && temporary_.empty()) {
    temporary_ = give_name(file_, target_);
    if (temporary_.empty()) {
      const int code = errno;
      discard();
      fail(path_, "write", code);
    }
  }
  // Another number of the file keeps the lock until the rename. Some file systems report an error at each close.
  const int locked = direct_ ? -1 : fcntl(file_, F_DUPFD_CLOEXEC, 3);
  const int closed = close(file_);
  const int close_error = errno;
  file_ = locked;
  if (closed != 0 && close_error != EINTR) {
    discard();
    fail(path_, "write", close_error);
  }
  if (direct_) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int code = errno;
    discard();
    fail(path_, "write", code);
  }
  temporary_.clear();
  discard();  // the lock
  const int folder = uninterrupted([&] { return open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (folder >= 0) {
    (void)fsync(folder);  // some file systems refuse; the file itself is safe
    close(folder);
  }
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace protean
