#include "apps/solve/history.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/solve/report.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"

namespace protean::apps {
namespace {

constexpr double pace = 1;  // seconds

}  // namespace

HistoryFile::~HistoryFile() {
  if (file_ >= 0) close(file_);
}

// What goes into a pipe cannot be written again.
bool HistoryFile::can_be_replaced() const {
  return path_ != AtomicFile::standard_output && io_detail::kind_of(path_) == io_detail::FileKind::ordinary;
}

void HistoryFile::add(const IterationInfo& info) {
  lines_.push_back(info);
  if (info.seconds < next_ || failed_) return;
  next_ = info.seconds + pace;
  try {
    grow();
  } catch (const std::exception&) { failed_ = true; }
}

void HistoryFile::grow() {
  if (file_ >= 0) return append();
  write_file(path_, history_csv(lines_));
  written_ = lines_.size();
  file_ = path_ == AtomicFile::standard_output ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                               : open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw WriteFailed(fmt::format("cannot append to '{}': {}", path_, std::strerror(errno)));
}

// Whole lines or none: what a failure has left of a line is cut off again. The standard output is not ours to cut.
void HistoryFile::append() {
  const std::string text =
      history_lines({lines_.begin() + static_cast<std::ptrdiff_t>(written_), lines_.end()});
  const off_t before = path_ == AtomicFile::standard_output ? -1 : lseek(file_, 0, SEEK_END);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int code = count < 0 ? errno : ENOSPC;
      if (before >= 0 && ftruncate(file_, before) != 0) failed_ = true;
      throw WriteFailed(fmt::format("cannot append to '{}': {}", path_, std::strerror(code)));
    }
    done += static_cast<std::size_t>(count);
  }
  written_ = lines_.size();
}

void HistoryFile::finish() {
  if (file_ < 0 && written_ == 0) return write_file(path_, history_csv(lines_));
  if (!failed_) return append();
  if (!can_be_replaced())
    throw WriteFailed(
        fmt::format("cannot write all lines of the history to '{}'; choose an ordinary file", path_));
  write_file(path_, history_csv(lines_));
}

}  // namespace protean::apps
