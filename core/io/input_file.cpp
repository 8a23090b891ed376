#include "core/io/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::io_detail {
namespace {

// Why a file of this kind is not read; empty for the kinds that are read.
std::string_view refusal(FileKind kind) noexcept {
  switch (kind) {
    case FileKind::folder:
      return "is a folder; give the path of a file";
    case FileKind::named_pipe:
      return "is a named pipe, which would wait for another program; give an ordinary file, or a pipe of the "
             "shell: <(command)";
    case FileKind::device:
      return "is a device or a terminal, not a file; give an ordinary file, or a pipe of the shell";
    case FileKind::other:
      return "is not an ordinary file";
    case FileKind::missing:
    case FileKind::unreachable:
    case FileKind::ordinary:
    case FileKind::pipe:
      break;
  }
  return {};
}

// Waits until a pipe holds that many bytes, or nobody writes to it any more.
void wait_for_bytes(int pipe, std::size_t most) {
  for (;;) {
    int held = 0;
    if (ioctl(pipe, FIONREAD, &held) != 0 || static_cast<std::size_t>(held) >= most) return;
    pollfd asked{pipe, POLLIN, 0};
    // A pipe that holds something is ready at once, so there is nothing to wait for but time.
    const int ready = poll(&asked, 1, held > 0 ? 0 : -1);
    if (ready < 0 && errno != EINTR) return;
    if ((asked.revents & POLLHUP) != 0) return;
    if (held > 0) (void)usleep(1000);
  }
}

// The same bytes come back from a later read: tee(2) copies what a pipe holds and takes nothing out.
std::string first_bytes_of_pipe(const std::string& path, int pipe, std::size_t most) {
  wait_for_bytes(pipe, most);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw BadFile(path, 0, 0, fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string bytes(most, '\0');
  const ssize_t copied = tee(pipe, ends[1], most, SPLICE_F_NONBLOCK);
  const ssize_t got = copied > 0 ? ::read(ends[0], bytes.data(), static_cast<std::size_t>(copied)) : 0;
  close(ends[0]), close(ends[1]);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

}  // namespace

FileKind kind_of(const std::string& path) noexcept {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    return errno == ENOENT || errno == ENOTDIR ? FileKind::missing : FileKind::unreachable;
  if (S_ISREG(status.st_mode)) return FileKind::ordinary;
  if (S_ISDIR(status.st_mode)) return FileKind::folder;
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) return FileKind::device;
  if (!S_ISFIFO(status.st_mode)) return FileKind::other;
  struct statfs system {};
  const bool of_shell = statfs(path.c_str(), &system) == 0 && system.f_type == PIPEFS_MAGIC;
  return of_shell ? FileKind::pipe : FileKind::named_pipe;
}

InputFile::InputFile(const std::string& path) : path_(path) {
  const FileKind kind = kind_of(path);
  if (const std::string_view why = refusal(kind); !why.empty()) throw BadFile(path, 0, 0, std::string(why));
  do file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (file_ < 0 && errno == EINTR);
  if (file_ < 0) {
    const int code = errno;
    const std::string other = code == ENOENT ? with_other_ending(path) : std::string();
    throw BadFile(path, 0, 0,
                  fmt::format("cannot be opened: {}{}", std::strerror(code),
                              other.empty() ? "" : fmt::format(". Did you mean '{}'?", other)));
  }
  struct stat status {};
  if (fstat(file_, &status) != 0) {
    const int code = errno;
    close(file_);
    throw BadFile(path, 0, 0, fmt::format("cannot be read: {}", std::strerror(code)));
  }
  ordinary_ = S_ISREG(status.st_mode);
  if (ordinary_) size_ = status.st_size;
}

InputFile::~InputFile() { close(file_); }

std::size_t InputFile::read(char* to, std::size_t most) {
  while (true) {
    const ssize_t got = ::read(file_, to, most);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw BadFile(path_, 0, 0, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
}

std::size_t InputFile::read_at(std::uint64_t offset, void* to, std::size_t bytes) const {
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t got =
        pread(file_, static_cast<char*>(to) + have, bytes - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw BadFile(path_, 0, 0, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

std::string first_bytes(const std::string& path, std::size_t most) {
  InputFile file(path);
  if (!file.ordinary()) return first_bytes_of_pipe(path, file.descriptor(), most);
  std::string bytes(most, '\0');
  std::size_t have = 0;
  while (have < most) {
    const std::size_t got = file.read(bytes.data() + have, most - have);
    if (got == 0) break;
    have += got;
  }
  bytes.resize(have);
  return bytes;
}

std::string with_other_ending(const std::string& path) {
  std::string base = path;
  for (const std::string_view ending : {".gz", ".xz", ".mtx", ".npy", ".pbin", ".yaml", ".yml"})
    if (base.ends_with(ending)) base.resize(base.size() - ending.size());
  for (const std::string& begin : {path, base})
    for (const char* ending :
         {"", ".xz", ".gz", ".mtx", ".mtx.xz", ".mtx.gz", ".pbin", ".npy", ".yaml", ".yml"})
      if (begin + ending != path && kind_of(begin + ending) == FileKind::ordinary) return begin + ending;
  return {};
}

std::string read_text(const std::string& path, std::size_t most) {
  InputFile file(path);
  std::string text;
  constexpr std::size_t step = std::size_t{64} << 10;
  while (true) {
    const std::size_t have = text.size();
    text.resize(have + step);
    const std::size_t got = file.read(text.data() + have, step);
    text.resize(have + got);
    if (got == 0) return text;
    if (text.size() > most)
      throw BadFile(
          path, 0, 0,
          fmt::format("has more than {}, which is the most for a file of this kind", human_bytes(most)));
  }
}

}  // namespace protean::io_detail
