#include "operators/policy/builtin_machine.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include <fast_float/fast_float.h>
#include <hwy/targets.h>

#include "core/error.hpp"

namespace protean {

// The texts of builtin_machine.tsv and its kin. The build makes these constants.
extern const char builtin_machine_lines[];
extern const char builtin_amd_avx512_lines[];
extern const char builtin_avx2_lines[];

namespace {

// The fields of one line, each taken in turn.
class Fields {
 public:
  Fields(std::string_view line, std::string_view file, std::int64_t number)
      : rest_(line), file_(file), number_(number) {}

  std::string_view word() {
    if (ended_) fail("has too few fields");
    const std::size_t end = rest_.find('\t');
    const std::string_view field = rest_.substr(0, end);
    ended_ = end == rest_.npos;
    rest_ = ended_ ? std::string_view() : rest_.substr(end + 1);
    if (field.empty()) fail("has an empty field");
    return field;
  }
  std::int64_t positive() {
    const std::string_view field = word();
    std::int64_t value = 0;
    const auto result = std::from_chars(field.data(), field.data() + field.size(), value);
    if (result.ec != std::errc() || result.ptr != field.data() + field.size() || value < 1)
      fail("has '" + std::string(field) + "' where a positive integer belongs");
    return value;
  }
  // At least `least`; with `above`, more than it.
  double number(double least, bool above) {
    const std::string_view field = word();
    double value = 0;
    const auto result = fast_float::from_chars(field.data(), field.data() + field.size(), value);
    if (result.ec != std::errc() || result.ptr != field.data() + field.size() || !std::isfinite(value) ||
        value < least || (above && value == least))
      fail("has '" + std::string(field) + "' where a number belongs");
    return value;
  }
  void end() const {
    if (!ended_) fail("has too many fields");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw BadFile(std::string(file_), number_, 0, "the line " + what);
  }

 private:
  std::string_view rest_, file_;
  std::int64_t number_;
  bool ended_ = false;
};

Space read_space(Fields& fields) {
  const std::string_view name = fields.word();
  if (name != "host" && name != "device") fields.fail("names a space that is neither host nor device");
  return name == "host" ? Space::host : Space::device;
}

// Adds the names to `few`, if they are of that space.
void read_few(Fields& fields, Space space, FewFormats* few) {
  const bool asked = read_space(fields) == space && few;
  const std::string_view kind = fields.word();
  if (kind != "likely" && kind != "rare") fields.fail("names few formats that are neither likely nor rare");
  std::string_view names = fields.word();
  while (asked && !names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    (kind == "likely" ? few->likely : few->rare).emplace_back(name);
  }
}

MeasuredMatrix read_matrix(Fields& fields) {
  MeasuredMatrix matrix;
  matrix.matrix = fields.word();
  matrix.space = read_space(fields);
  matrix.rows = fields.positive();
  matrix.nonzeros = fields.positive();
  matrix.row_changes = fields.number(-1, false);
  return matrix;
}

MeasuredFormat read_format(Fields& fields) {
  MeasuredFormat format;
  format.format = fields.word();
  format.bytes = static_cast<std::size_t>(fields.positive());
  format.product_seconds = fields.number(0, true) / 1e6;
  format.convert_seconds = fields.number(0, false) / 1e6;
  return format;
}

}  // namespace

MachineTable parse_machine_lines(std::string_view text, std::string_view file, std::optional<Space> only,
                                 const WantedFormat& wanted) {
  MachineTable table;
  bool passed_over = false;  // the matrix to which lines of formats belong
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '\t') {
      if (passed_over) continue;
      const std::string_view format = line.substr(1);
      if (wanted && !wanted(format.substr(0, format.find('\t')))) continue;
      Fields fields(format, file, number);
      if (table.matrices.empty()) fields.fail("has a format, and no matrix is before it");
      table.matrices.back().formats.push_back(read_format(fields));
      fields.end();
      continue;
    }
    Fields fields(line, file, number);
    const std::string_view kind = fields.word();
    if (kind == "machine")
      table.machine = fields.word();
    else if (kind == "few")
      read_few(fields, Space::host, nullptr);
    else if (kind == "matrix") {
      MeasuredMatrix matrix = read_matrix(fields);
      passed_over = only && matrix.space != *only;
      if (!passed_over) table.matrices.push_back(std::move(matrix));
    } else
      fields.fail("is not one of a machine, a matrix, or a format of the matrix before it");
    fields.end();
  }
  return table;
}

namespace {

bool of_elements(const MeasuredFormat& format) {
  return format.format.starts_with("lma-") || format.format == "assembly" || format.format == "csr";
}

MachineTable read_builtin(BuiltinHost host, std::optional<Space> only, const WantedFormat& wanted = {});

// The host of these lines, with what was measured on the other machine alone: the GPU, and element matrices
// relative to csr. Assembled formats with few measurements there would change what is known of them here.
MachineTable host_of_its_own(std::string_view lines, std::string_view file, std::optional<Space> only,
                             const WantedFormat& wanted) {
  MachineTable table = parse_machine_lines(lines, file, only, wanted);
  const MachineTable other = read_builtin(BuiltinHost::avx512, only, wanted);
  table.machine += "; others: " + other.machine;
  for (MeasuredMatrix matrix : other.matrices) {
    if (matrix.space == Space::host) {
      if (std::none_of(matrix.formats.begin(), matrix.formats.end(),
                       [](const MeasuredFormat& format) { return format.format.starts_with("lma-"); }))
        continue;
      std::erase_if(matrix.formats, [](const MeasuredFormat& format) { return !of_elements(format); });
    }
    table.matrices.push_back(std::move(matrix));
  }
  return table;
}

struct Lines {
  std::string_view text, file;
};
Lines lines_of(BuiltinHost host) {
  switch (host) {
    case BuiltinHost::avx512:
      break;
    case BuiltinHost::amd_avx512:
      return {builtin_amd_avx512_lines, "builtin_amd_avx512.tsv"};
    case BuiltinHost::avx2:
      return {builtin_avx2_lines, "builtin_avx2.tsv"};
  }
  return {builtin_machine_lines, "builtin_machine.tsv"};
}

MachineTable read_builtin(BuiltinHost host, std::optional<Space> only, const WantedFormat& wanted) {
  const auto [text, file] = lines_of(host);
  return host == BuiltinHost::avx512 ? parse_machine_lines(text, file, only, wanted)
                                     : host_of_its_own(text, file, only, wanted);
}

}  // namespace

const MachineTable& builtin_machine(BuiltinHost host) {
  if (host == BuiltinHost::avx512) {
    static const MachineTable table = read_builtin(BuiltinHost::avx512, {});
    return table;
  }
  if (host == BuiltinHost::amd_avx512) {
    static const MachineTable table = read_builtin(BuiltinHost::amd_avx512, {});
    return table;
  }
  static const MachineTable table = read_builtin(BuiltinHost::avx2, {});
  return table;
}

MachineTable builtin_machine(BuiltinHost host, Space only, const WantedFormat& wanted) {
  return read_builtin(host, only, wanted);
}

FewFormats builtin_few(BuiltinHost host, Space space) {
  auto [text, file] = lines_of(space == Space::device ? BuiltinHost::avx512 : host);
  FewFormats few;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("matrix\t")) break;  // they stand before all matrices
    if (!line.starts_with("few\t")) continue;
    Fields fields(line, file, number);
    fields.word();
    read_few(fields, space, &few);
    fields.end();
  }
  return few;
}

BuiltinHost builtin_host() {
  // Asked once: the instruction behind it leaves a virtual machine each time, 30 microseconds in all.
  static const BuiltinHost host = [] {
    if ((hwy::SupportedTargets() & HWY_AVX3) == 0) return BuiltinHost::avx2;
#if HWY_ARCH_X86
    __builtin_cpu_init();
    if (__builtin_cpu_is("amd")) return BuiltinHost::amd_avx512;
#endif
    return BuiltinHost::avx512;
  }();
  return host;
}

const MachineTable& builtin_machine() { return builtin_machine(builtin_host()); }

}  // namespace protean
