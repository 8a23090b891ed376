#include "apps/report/progress.hpp"
#include "apps/report/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "core/error.hpp"

namespace protean::apps {
namespace {

constexpr int bar_cells = 24;
constexpr double redraw_seconds = 0.08;
constexpr double rate_window_seconds = 2;

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    return std::strstr(value, "UTF-8") || std::strstr(value, "utf8") || std::strstr(value, "UTF8");
  }
  return false;
}

std::string bar(double part, bool utf8) {
  const int full = static_cast<int>(std::lround(std::clamp(part, 0.0, 1.0) * bar_cells));
  std::string text;
  for (int i = 0; i < bar_cells; ++i) text += i < full ? (utf8 ? "━" : "=") : (utf8 ? "─" : "-");
  return text;
}

}  // namespace

std::string duration(double seconds) {
  if (seconds < 9.95e-6) return fmt::format("{:.2g} us", seconds * 1e6);  // a product of a small matrix
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 99.95) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<long long>(std::min(seconds, 1e15));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} days", whole / 86400);
}

std::string progress_line(const IterationInfo& info, const IterationInfo& since, double first_residual,
                          double target, std::int64_t max_iterations, int width, bool utf8) {
  const double now = info.relative_residual;
  // The logarithm of the residual decreases at a nearly constant rate. If the limit on iterations would be
  // reached earlier, the bar shows the part of that limit.
  double part =
      max_iterations > 0 ? static_cast<double>(info.iteration) / static_cast<double>(max_iterations) : 0;
  if (target > 0 && target < first_residual && now > 0)
    part = std::max(part, std::log(first_residual / now) / std::log(first_residual / target));
  std::string line = fmt::format("it {:<6}  residual {:.2e}", info.iteration, now);

  const double seconds = info.seconds - since.seconds;
  const auto iterations = static_cast<double>(info.iteration - since.iteration);
  std::string rates;
  if (seconds > 0 && iterations > 0) {
    const double per_second = iterations / seconds;
    rates += fmt::format("  {:.3g} it/s", per_second);
    const double reduction = std::exp(std::log(now / since.relative_residual) / iterations);
    if (std::isfinite(reduction) && reduction > 0) rates += fmt::format("  x{:.3f}/it", reduction);
    double left = max_iterations > 0 ? static_cast<double>(max_iterations - info.iteration) : INFINITY;
    bool capped = true;
    if (target > 0 && reduction < 1 && reduction > 0 && now > target) {
      const double needed = std::log(target / now) / std::log(reduction);
      if (needed < left) left = needed, capped = false;
    }
    if (std::isfinite(left))
      rates +=
          fmt::format("  {} left{}", duration(std::max(left, 0.0) / per_second), capped ? " (at most)" : "");
  }
  const auto columns = static_cast<std::size_t>(std::max(width - 1, 0));
  if (line.size() + rates.size() <= columns) line += rates;
  if (line.size() + bar_cells + 2 <= columns) return bar(part, utf8) + "  " + line;
  return line.substr(0, columns);
}

Monitor monitor_of(const std::string& text) {
  if (text.empty()) return {};
  const bool in_seconds = text.back() == 's';
  const char* const begin = text.data();
  const char* const end = begin + text.size() - (in_seconds ? 1 : 0);
  Monitor monitor;
  const auto parsed = in_seconds ? std::from_chars(begin, end, monitor.seconds)
                                 : std::from_chars(begin, end, monitor.iterations);
  const bool good =
      in_seconds ? monitor.seconds > 0 && std::isfinite(monitor.seconds) : monitor.iterations > 0;
  if (parsed.ec != std::errc() || parsed.ptr != end || !good)
    throw BadArgument(fmt::format(
        "--monitor '{:.50}': write a number of iterations, as --monitor 100, or of seconds, as --monitor 5s",
        text));
  return monitor;
}

std::string monitor_line(const IterationInfo& info) {
  return fmt::format("iteration {}  relative residual {:.3e}  {}", info.iteration, info.relative_residual,
                     duration(info.seconds));
}

Progress::Progress(bool wanted, Monitor monitor) : utf8_(locale_is_utf8()), monitor_(monitor) {
  const char* terminal = std::getenv("TERM");
  shown_ = wanted && isatty(STDERR_FILENO) && terminal && std::strcmp(terminal, "dumb") != 0;
}

void Progress::draw(const std::string& line) {
  const std::string text = "\r" + line + "\x1b[K";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::stage(std::string_view text) {
  if (!shown_) return;
  draw(fmt::format("{} ...", text));
}

bool Progress::monitored(const IterationInfo& info) {
  if (monitor_.iterations > 0) return info.iteration % monitor_.iterations == 0;
  if (monitor_.seconds <= 0 || info.seconds < next_line_) return false;
  next_line_ = info.seconds + monitor_.seconds;
  return true;
}

void Progress::print_line(const std::string& text) {
  clear();
  std::fputs((text + "\n").c_str(), stderr);
  std::fflush(stderr);
  last_drawn_ = -1;
}

void Progress::iteration(const IterationInfo& info, const StoppingRule& rule) {
  if (monitor_ && monitored(info)) print_line(monitor_line(info));
  if (!shown_) return;
  if (info.iteration == 0) first_ = info.relative_residual, mark_ = info, last_drawn_ = -1;
  if (last_drawn_ >= 0 && info.seconds - last_drawn_ < redraw_seconds) return;
  last_drawn_ = info.seconds;
  const double baseline = info.relative_residual > 0 ? info.residual / info.relative_residual : 0;
  const double target =
      std::max(rule.relative_tolerance, baseline > 0 ? rule.absolute_tolerance / baseline : 0.0);
  draw(progress_line(info, mark_, first_, target, rule.max_iterations, terminal_width(STDERR_FILENO), utf8_));
  // Half of the window is kept, so that a rate is never computed from a single iteration.
  if (info.seconds - mark_.seconds > rate_window_seconds) {
    if (half_.iteration > mark_.iteration) mark_ = half_;
    half_ = info;
  }
}

void Progress::note(const std::string& text) {
  if (shown_ || monitor_) print_line(text);
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace protean::apps
