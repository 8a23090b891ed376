#include "core/io/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
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

// True where another path in the same folder would fail as well, today.
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
  if (lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
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
  if ((mode & 0222) != 0 && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return;
  throw Error(
      fmt::format("cannot write '{}': the file is read-only; allow writing (chmod u+w), or choose another "
                  "path",
                  path));
}

constexpr int most_names = 100;

// A name that this process has not used before. Another process may have left a file of this name; then the
// caller asks for the next name.
std::string next_name(const std::string& target) {
  static std::atomic<unsigned> next_number{0};
  return fmt::format("{}.{}.{}.tmp", target, getpid(), next_number++);
}

std::string by_number(int file) { return fmt::format("/proc/self/fd/{}", file); }

// A file without a name. The system removes it when the process ends, unless give_name() was called. -1 where
// the file system has no such files.
int open_nameless(const std::string& folder) {
  const int file = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (file < 0 || access(by_number(file).c_str(), F_OK) == 0) return file;
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
    // The descriptor itself: where the shell has redirected it to a file, a rename would replace that file, and what
    // the process prints later would be lost.
    direct_ = true;
    file_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (file_ < 0) fail(path_, "write to the standard output,", errno);
    return;
  }
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(path_, "write", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    if (io_detail::kind_of(path_) == io_detail::FileKind::named_pipe)
      throw Error(fmt::format(
          "cannot write '{}': it is a named pipe, which would wait for another program; choose an "
          "ordinary file, or a pipe of the shell: >(command)",
          path_));
    direct_ = true;
    file_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail(path_, "open", errno);
    return;
  }
  target_ = follow(path_);
  if (exists) require_writable(path_, status.st_mode);
  file_ = open_nameless(folder_of(target_));
  for (int attempt = 0; file_ < 0; ++attempt) {
    temporary_ = next_name(target_);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && (errno != EEXIST || attempt == most_names)) {
      const int code = errno;
      temporary_.clear();
      fail(path_, "create", code);
    }
  }
  if (exists) (void)fchmod(file_, status.st_mode & 07777);  // a failure is no reason to lose the content
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  file_ = -1, temporary_.clear();
}

void AtomicFile::write_through(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(file_, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      discard();
      fail(path_, "write", code);
    }
    data += written, bytes -= static_cast<std::size_t>(written);
  }
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
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(file_, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      discard();
      fail(path_, "write", code);
    }
    const auto done = static_cast<std::size_t>(written);
    from += done, offset += done, bytes -= done;
  }
}

void AtomicFile::commit() {
  if (file_ < 0) throw BadArgument("'" + path_ + "': commit() called twice or after an error");
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
  // Without fsync a crash soon after the rename could leave an empty file under the final name. Pipes and
  // devices cannot be flushed to a disk, which is no error.
  if (!direct_ && fsync(file_) != 0) {
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
  const int closed = close(std::exchange(file_, -1));
  const int close_error = errno;
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
  const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
