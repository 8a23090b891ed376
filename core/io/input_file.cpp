#include "core/io/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

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
      return "is a device, not a file; give an ordinary file";
    case FileKind::other:
      return "is not an ordinary file";
    case FileKind::missing:
    case FileKind::ordinary:
    case FileKind::pipe:
      break;
  }
  return {};
}

}  // namespace

FileKind kind_of(const std::string& path) noexcept {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return FileKind::missing;
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
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw BadFile(path, 0, 0, fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  ordinary_ = kind == FileKind::ordinary;
  if (ordinary_ && fstat(file_, &status) == 0) size_ = status.st_size;
}

InputFile::~InputFile() { close(file_); }

std::size_t InputFile::read(char* to, std::size_t most) {
  while (true) {
    const ssize_t got = ::read(file_, to, most);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw BadFile(path_, 0, 0, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
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
