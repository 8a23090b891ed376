#include "apps/report/output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/io/atomic_file.hpp"

namespace protean::apps {

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !written)
    throw WriteFailed("cannot write to the standard output: no space, or it was closed");
}

void print_beside(bool output_is_taken, std::string_view text) {
  if (!output_is_taken) return print(text);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int terminal_width(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + end > width) {
      out += '\n';
      out.append(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += ' ', ++column;
    }
    out += text.substr(0, end), column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string fitted(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    // The value: behind a gap, if there is one.
    std::size_t value = line.find("  ", begin);
    value = value == std::string_view::npos ? begin : line.find_first_not_of(' ', value);
    if (line.size() <= width || value + 20 > width)
      out += line;
    else
      out.append(line.substr(0, value)).append(wrapped(line.substr(value), value, width - value));
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace protean::apps
