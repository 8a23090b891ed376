#include "apps/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace protean::apps {
namespace {

constexpr double left = 64, right = 16, top = 12;

// Of one axis: values to pixels.
struct Scale {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  double from = 0, to = 0;
  bool log = false;

  bool takes(double value) const { return std::isfinite(value) && (!log || value > 0); }
  void add(double value) {
    if (takes(value)) low = std::min(low, value), high = std::max(high, value);
  }
  void close() {
    if (low > high) low = log ? 1 : 0, high = log ? 10 : 1;
    if (!log && low > 0 && low < 0.5 * high) low = 0;
    if (low == high) low = log ? low / 2 : low - 0.5, high = log ? high * 2 : high + 0.5;
  }
  double operator()(double value) const {
    const double part = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + part * (to - from);
  }
  // At most 20 or so. If the range is too narrow for double precision, or too wide, there are none.
  std::vector<double> ticks() const {
    std::vector<double> list;
    if (log) {
      const double decades = std::log10(high / low);
      if (!std::isfinite(decades)) return list;
      const int first = static_cast<int>(std::floor(std::log10(low))),
                last = static_cast<int>(std::ceil(std::log10(high))), stride = 1 + (last - first) / 12;
      for (int e = first; e <= last; e += stride)
        for (const double m : {1.0, 2.0, 5.0})
          if (const double v = m * std::pow(10.0, e);
              (m == 1 || decades <= 2) && v >= low * 0.999 && v <= high * 1.001)
            list.push_back(v);
      return list;
    }
    const double raw = (high - low) / 6;
    if (!std::isfinite(raw) || !(low + raw > low) || !(high - raw < high)) return list;
    const double unit = std::pow(10.0, std::floor(std::log10(raw)));
    double step = 10 * unit;
    for (const double m : {5.0, 2.0, 1.0})
      if (m * unit >= raw) step = m * unit;
    const double begin = std::ceil(low / step);
    for (int k = 0; (begin + k) * step <= high + step / 1e6 && k < 20; ++k) {
      const double v = (begin + k) * step;
      list.push_back(std::fabs(v) < step / 1e6 ? 0 : v);
    }
    return list;
  }
};

std::string colour(std::size_t k) { return k < 6 ? fmt::format("var(--s{})", k) : "var(--rest)"; }

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    categories_ = chart.kind == "bars" || chart.kind == "boxes";
    // Names of many categories are turned, which needs room below; very many need a wider picture.
    const std::size_t count = categories_ ? chart.categories.size() : 0;
    turned_ = count > 6, width_ = count > 12 ? 1160 : 760, bottom_ = turned_ ? 96 : 46,
    height_ = 314 + bottom_;
    x_ = {.from = left, .to = width_ - right, .log = chart.x.log && !categories_};
    y_ = {.from = height_ - bottom_, .to = top, .log = chart.y.log};
    if (chart.y.down) std::swap(y_.from, y_.to);
  }

  std::string operator()() {
    for (const Series& series : chart_.series)
      for (const auto& point : series.points) {
        if (point.size() < 2)
          throw BadArgument(fmt::format("chart '{}': a point needs two numbers", chart_.title));
        if (!categories_) x_.add(point[0]);
        const std::size_t end = chart_.kind == "heat" ? 2 : point.size();
        for (std::size_t k = 1; k < end; ++k) y_.add(point[k]);
        if (chart_.kind == "heat" && point.size() > 2) heat_.add(point[2]);
      }
    const bool empty = y_.low > y_.high;
    if (categories_)
      x_.low = -0.5, x_.high = std::max<double>(1, static_cast<double>(chart_.categories.size())) - 0.5;
    if (chart_.kind == "bars" && !y_.log && y_.low > 0) y_.low = 0;
    if (chart_.kind == "heat") pad();
    x_.close(), y_.close(), heat_.close();
    axes();
    if (empty) text(width_ / 2, height_ / 2, "nothing was measured", "middle");
    for (std::size_t k = 0; k < chart_.series.size(); ++k) draw(chart_.series[k], k, colour(place_of(k)));
    const double legend = 18 * legend_lines();
    legend_text();
    return fmt::format(
        "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
        "aria-label=\"{2}\">{3}</svg>",
        width_, height_ + legend, escaped(chart_.title), out_);
  }

 private:
  // Squares need room about the outer points.
  void pad() {
    for (Scale* scale : {&x_, &y_})
      if (scale->log)
        scale->low /= 1.6, scale->high *= 1.6;
      else
        scale->low -= 0.5, scale->high += 0.5;
  }

  void text(double x, double y, const std::string& words, std::string_view anchor,
            std::string_view more = {}) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>", x, y, anchor, more,
                        escaped(words));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view how) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>", x1, y1, x2, y2,
                        how);
  }

  void axes() {
    if (categories_) {
      const std::size_t count = chart_.categories.size();
      const auto most = static_cast<std::size_t>(width_ / 30);
      const std::size_t step = std::max<std::size_t>(1, (count + most - 1) / most);
      for (std::size_t k = 0; k < count; k += step) {
        const double at = x_(static_cast<double>(k));
        text(at, height_ - bottom_ + 14, chart_.categories[k].substr(0, 18), turned_ ? "end" : "middle",
             turned_ ? fmt::format(" transform=\"rotate(-40 {:.1f} {:.1f})\"", at, height_ - bottom_ + 14)
                     : std::string());
      }
    } else {
      for (const double v : x_.ticks()) {
        line(x_(v), top, x_(v), height_ - bottom_, "class=\"axis\"");
        text(x_(v), height_ - bottom_ + 14, fmt::format("{:.4g}", v), "middle");
      }
      text((left + width_ - right) / 2, height_ - 6, chart_.x.label, "middle");
    }
    for (const double v : y_.ticks()) {
      line(left, y_(v), width_ - right, y_(v), "class=\"axis\"");
      text(left - 6, y_(v) + 4, fmt::format("{:.4g}", v), "end");
    }
    out_ +=
        fmt::format("<text transform=\"translate(13 {:.0f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                    (top + height_ - bottom_) / 2, escaped(chart_.y.label));
  }

  // The place of a series among the names: "X, paper" and "X" have one colour.
  std::size_t place_of(std::size_t k) const {
    const auto base = [&](std::size_t i) {
      const std::string& name = chart_.series[i].name;
      const std::size_t end = chart_.series[i].paper ? name.rfind(", paper") : name.npos;
      return name.substr(0, end);
    };
    std::size_t place = 0;
    for (std::size_t i = 0; i < k; ++i) {
      if (base(i) == base(k)) return place_of(i);
      std::size_t first = 0;
      while (base(first) != base(i)) ++first;
      place += first == i;
    }
    return place;
  }

  void draw(const Series& series, std::size_t k, const std::string& shade) {
    if (chart_.kind == "lines" || chart_.kind == "steps") return draw_line(series, shade);
    const double count = static_cast<double>(std::max<std::size_t>(1, chart_.series.size()));
    const double slot = (x_(1) - x_(0)) * 0.8 / count;
    for (const auto& p : series.points) {
      if (chart_.kind == "points") {
        if (!x_.takes(p[0]) || !y_.takes(p[1])) continue;
        out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" {}/>", x_(p[0]), y_(p[1]),
                            fill(series, shade));
      } else if (chart_.kind == "heat") {
        if (!x_.takes(p[0]) || !y_.takes(p[1]) || p.size() < 3) continue;
        const double part = (heat_(p[2]) - heat_.from) / (heat_.to - heat_.from);
        out_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--s0)\" "
            "fill-opacity=\"{:.3f}\"><title>{:.4g}</title></rect>",
            x_(p[0]) - cell() / 2, y_(p[1]) - cell() / 2, cell(), cell(), 0.08 + 0.92 * part, p[2]);
      } else {
        const double middle = x_(p[0]) + (static_cast<double>(k) - (count - 1) / 2) * slot;
        if (chart_.kind == "boxes" && p.size() >= 6)
          draw_box(p, middle, slot, series, shade);
        else if (y_.takes(p[1]))
          draw_bar(p[1], middle, slot, series, shade);
      }
    }
  }

  double cell() const {
    // Patterns have many points, tables of sizes few.
    std::size_t most = 1;
    for (const Series& series : chart_.series) most = std::max(most, series.points.size());
    return std::clamp(300 / std::sqrt(static_cast<double>(most)), 2.0, 44.0);
  }

  void draw_line(const Series& series, const std::string& shade) {
    std::string path;
    for (const auto& p : series.points) {
      if (!x_.takes(p[0]) || !y_.takes(p[1])) continue;
      if (path.empty())
        path = fmt::format("M{:.1f} {:.1f}", x_(p[0]), y_(p[1]));
      else if (chart_.kind == "steps")
        path += fmt::format("H{:.1f}V{:.1f}", x_(p[0]), y_(p[1]));
      else
        path += fmt::format("L{:.1f} {:.1f}", x_(p[0]), y_(p[1]));
      if (chart_.kind == "lines" && series.points.size() < 40)
        out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" {}/>", x_(p[0]), y_(p[1]),
                            fill(series, shade));
    }
    if (!path.empty())
      out_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{}/>", path, shade,
                          series.paper ? " stroke-dasharray=\"5 4\"" : "");
  }

  void draw_bar(double value, double middle, double slot, const Series& series, const std::string& shade) {
    const double base = y_.log ? height_ - bottom_ : y_(std::clamp(0.0, y_.low, y_.high)), end = y_(value);
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}><title>{:.4g}</title></rect>",
        middle - slot / 2, std::min(base, end), std::max(slot - 1, 0.6), std::fabs(base - end),
        fill(series, shade), value);
  }

  void draw_box(const std::vector<double>& p, double middle, double slot, const Series& series,
                const std::string& shade) {
    for (std::size_t k = 1; k < 6; ++k)
      if (!y_.takes(p[k])) return;
    const double half = std::max(slot * 0.4, 1.0);
    const std::string stroke = fmt::format("stroke=\"{}\"", shade);
    line(middle, y_(p[1]), middle, y_(p[2]), stroke);
    line(middle, y_(p[4]), middle, y_(p[5]), stroke);
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {} fill-opacity=\"0.3\" {}/>",
        middle - half, y_(p[4]), 2 * half, std::max(y_(p[2]) - y_(p[4]), 0.5), fill(series, shade), stroke);
    line(middle - half, y_(p[3]), middle + half, y_(p[3]), stroke + " stroke-width=\"2\"");
  }

  static std::string fill(const Series& series, const std::string& shade) {
    return series.paper ? fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.4\"", shade)
                        : fmt::format("fill=\"{}\"", shade);
  }

  double legend_lines() const {
    double lines = 1, x = left;
    for (const Series& series : chart_.series) {
      const double wide = 30 + 6.4 * static_cast<double>(series.name.size());
      if (x + wide > width_) ++lines, x = left;
      x += wide;
    }
    return lines;
  }
  void legend_text() {
    double x = left, y = height_ + 8;
    for (std::size_t k = 0; k < chart_.series.size(); ++k) {
      const Series& series = chart_.series[k];
      const double wide = 30 + 6.4 * static_cast<double>(series.name.size());
      if (x + wide > width_) x = left, y += 18;
      out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" {}/>", x, y - 9,
                          fill(series, colour(place_of(k))));
      text(x + 15, y, series.name, "start", " class=\"name\"");
      x += wide;
    }
  }

  const Chart& chart_;
  bool categories_ = false, turned_ = false;
  double width_ = 760, height_ = 360, bottom_ = 46;
  Scale x_, y_, heat_{.from = 0, .to = 1};
  std::string out_;
};

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string svg_of(const Chart& chart) {
  Drawing drawing(chart);
  return drawing();
}

}  // namespace protean::apps
