// Pictures of numbers as SVG, for pages without scripts.
#pragma once
#include <string>
#include <vector>

namespace protean::apps {

struct Axis {
  std::string label;
  bool log = false;
  bool down = false;  // of y: grows downwards, as the rows of a matrix
};

// One colour of a picture. The points have, by the kind of the chart,
//   lines, steps, points   x, y
//   bars                   category, y
//   boxes                  category, least, lower quartile, median, upper quartile, largest
//   heat                   x, y, value: a square, dark where the value is large
// A category is a number from 0 on, whose name is in Chart::categories.
struct Series {
  std::string name;
  bool paper = false;  // drawn hollow or dashed
  std::vector<std::vector<double>> points;
};

struct Chart {
  std::string kind;  // lines, steps, points, bars, boxes, heat
  std::string title;
  Axis x, y;
  std::vector<std::string> categories;
  std::vector<Series> series;
};

// <svg ...>...</svg> with the colours of apps/report/page.css. Points that are not finite, and points that are not
// above 0 on a logarithmic axis, are left out. Without any point the picture says so.
std::string svg_of(const Chart& chart);

// Text in which nothing is markup.
std::string escaped(const std::string& text);

}  // namespace protean::apps
