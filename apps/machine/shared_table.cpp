#include "apps/machine/shared_table.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <vector>

#include "apps/command/build_info.hpp"
#include "apps/command/files.hpp"
#include "apps/machine/tune.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/ordering.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"

namespace protean::apps {
namespace {

namespace paths = std::filesystem;

[[noreturn]] void refuse_table(const std::string& file, const std::string& message) {
  throw BadFile(file, 0, 0, message);
}

// What a table must say before it is used on another machine.
void require_origin(const std::string& file, const TunedMachine& table) {
  const TableOrigin& origin = table.origin;
  for (const auto& [key, missing] : {std::pair{"processor", origin.processor.empty()},
                                     {"threads", origin.threads == 0},
                                     {"version", origin.version.empty()},
                                     {"date", origin.date.empty()}})
    if (missing)
      refuse_table(
          file, fmt::format("the key '{}' is missing, without which a table cannot be shared; `protean tune` "
                            "of this version writes it when it measures a matrix",
                            key));
  if (table.matrices.empty())
    refuse_table(
        file, "it has no measured matrix that may be shared; run `protean tune` first, without --matrices");
}

// "csr/mkl", "order-rcm", "assembly": what `protean tune` and the policy know.
bool is_known_row(std::string_view name) {
  const std::string_view id = name.substr(0, name.find('/'));
  if (id == "assembly" || id.starts_with("lma-")) return true;
  if (id.starts_with("order-")) {
    const auto orders = orderings();
    return std::any_of(orders.begin(), orders.end(), [&](const auto& one) { return id.substr(6) == one.id; });
  }
  return std::any_of(catalogue().begin(), catalogue().end(),
                     [&](const FormatEntry* one) { return id == one->id; });
}

void require_known_formats(const std::string& file, const TunedMachine& table) {
  std::vector<std::string_view> ids;
  for (const FormatEntry* one : catalogue()) ids.push_back(one->id);
  for (std::size_t i = 0; i < table.matrices.size(); ++i)
    for (std::size_t k = 0; k < table.matrices[i].formats.size(); ++k) {
      const std::string& name = table.matrices[i].formats[k].format;
      if (!is_known_row(name))
        refuse_table(
            file,
            fmt::format("matrices[{}].formats[{}] is '{:.50}', which is not a format of protean {}; the "
                        "table is of version {:.50}.{}",
                        i, k, name, build_info().version, table.origin.version,
                        detail::did_you_mean(name, ids)));
    }
}

// A table of one machine has each matrix once a space; the built-in one, of several machines, has not.
void require_distinct_matrices(const std::string& file, const TunedMachine& table) {
  const std::vector<MeasuredMatrix>& all = table.matrices;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t other = 0; other < i; ++other)
      if (all[other].matrix == all[i].matrix && all[other].space == all[i].space)
        refuse_table(file, fmt::format("matrices[{}] is {:.50} of the {} again, as matrices[{}]; remove one",
                                       i, all[i].matrix, to_string(all[i].space), other));
}

void keep_only(TunedMachine& table, const std::function<bool(const MeasuredMatrix&)>& wanted) {
  std::erase_if(table.matrices, [&](const MeasuredMatrix& one) { return !wanted(one); });
}

std::string origin_text(const TunedMachine& table) {
  const TableOrigin& origin = table.origin;
  return fmt::format("{} matrices of {}, {} threads{}, by protean {} on {}", table.matrices.size(),
                     origin.processor, origin.threads, origin.gpu.empty() ? "" : ", " + origin.gpu,
                     origin.version, origin.date);
}

}  // namespace

TableOrigin origin_here(int threads) {
  return {machine_info().cpu, gpu_name(), threads, build_info().version,
          fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))};
}

std::string file_name_of(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 && letter < 0x80)
      text += static_cast<char>(std::tolower(letter));
    else if (!text.empty() && text.back() != '-')
      text += '-';
  }
  while (text.ends_with('-')) text.pop_back();
  return text;
}

std::string export_table(const std::string& from, const std::string& to) {
  CommandFiles files;
  files.reads("-o", from);
  files.writes("--export", to);
  if (io_detail::kind_of(from) != io_detail::FileKind::missing) files.require_inputs();
  TunedMachine table = read_machine(from);
  files.require_outputs();
  const std::vector<TuneCase> cases = tune_cases();
  keep_only(table, [&](const MeasuredMatrix& one) {
    return std::any_of(cases.begin(), cases.end(),
                       [&](const TuneCase& its) { return its.name == one.matrix; });
  });
  require_origin(from, table);
  write_file(to, machine_text(table));
  return fmt::format("{}: {}\nAs a contributed table it is called {}.yaml\n", to, origin_text(table),
                     file_name_of(table.origin.processor));
}

std::string import_table(const std::string& from, const std::string& to) {
  CommandFiles files;
  files.reads("--import", from);
  files.writes("-o", to);
  files.require_inputs();
  const TunedMachine table = read_machine(from);
  require_origin(from, table);
  require_known_formats(from, table);
  require_distinct_matrices(from, table);
  if (const std::string here = machine_info().cpu; table.origin.processor != here)
    refuse_table(from,
                 fmt::format("it is of the processor '{:.100}', and this one is '{}'; `protean tune -o {}` "
                             "measures this one",
                             table.origin.processor, here, to));
  if (const std::string here = gpu_name();
      !table.origin.gpu.empty() && !here.empty() && table.origin.gpu != here)
    refuse_table(
        from, fmt::format("it is of the GPU '{:.100}', and this one is '{}'; `protean tune -o {}` measures "
                          "this one",
                          table.origin.gpu, here, to));
  files.require_outputs();
  const io_detail::FileKind kind = io_detail::kind_of(to);
  if (kind != io_detail::FileKind::missing)
    refuse_table(
        to,
        "it is there already, and may have times of this machine; remove it, or give another name with -o");
  write_file(to, machine_text(table));
  return fmt::format("{}: {}\nPROTEAN_MACHINE={} makes predictions use it\n", to, origin_text(table), to);
}

std::string tables_folder() {
  if (const char* const named = std::getenv("PROTEAN_TABLES"); named && *named) return named;
  std::error_code error;
  const paths::path program = paths::read_symlink("/proc/self/exe", error);
  return error ? std::string()
               : (program.parent_path() / "../share/protean/tables").lexically_normal().string();
}

ChosenMachine contributed_table(const std::string& folder, const std::string& processor,
                                const std::function<std::string()>& gpu) {
  ChosenMachine chosen{{}, "built in"};
  std::vector<std::string> files;
  std::error_code error;
  for (paths::directory_iterator one(folder, error), end; !error && one != end; one.increment(error))
    if (one->path().extension() == ".yaml") files.push_back(one->path().string());
  if (files.empty()) return chosen;
  std::sort(files.begin(), files.end());
  const std::string device = gpu();
  const auto begins = [](const std::string& file, const std::string& name) {
    const std::string wanted = file_name_of(name);
    return !wanted.empty() && paths::path(file).filename().string().starts_with(wanted);
  };
  bool has_host = false, has_device = false;
  for (const std::string& file : files) {
    if (!begins(file, processor) && !begins(file, device)) continue;
    TunedMachine table = read_machine(file);
    const bool host = !has_host && table.origin.processor == processor;
    const bool on_device = !has_device && !device.empty() && table.origin.gpu == device;
    if (!host && !on_device) continue;
    has_host = has_host || host, has_device = has_device || on_device;
    keep_only(table, [&](const MeasuredMatrix& one) { return one.space == Space::host ? host : on_device; });
    std::erase_if(table.roofs,
                  [&](const MeasuredRoof& one) { return one.space == Space::host ? !host : !on_device; });
    if (!chosen.own) {
      chosen = {std::move(table), file};
      continue;
    }
    for (MeasuredMatrix& one : table.matrices) chosen.own->matrices.push_back(std::move(one));
    for (const MeasuredRoof& one : table.roofs) chosen.own->roofs.push_back(one);
    chosen.from += ", " + file;
  }
  return chosen;
}

ChosenMachine choose_machine(const std::string& file) {
  std::string name = file;
  if (const char* variable = std::getenv("PROTEAN_MACHINE"); name.empty() && variable) name = variable;
  ChosenMachine chosen{{}, "built in"};
  if (name.empty()) {
    chosen = contributed_table(tables_folder(), machine_info().cpu, &gpu_name);
    if (!chosen.own) return chosen;
  } else {
    chosen = {read_machine(name), name};
  }
  for (const Space space : {Space::host, Space::device}) {
    const auto here = [&](const MeasuredMatrix& matrix) { return matrix.space == space; };
    std::vector<MeasuredMatrix>& matrices = chosen.own->matrices;
    if (std::any_of(matrices.begin(), matrices.end(), here)) continue;
    for (const MeasuredMatrix& matrix : builtin_machine().matrices)
      if (here(matrix)) matrices.push_back(matrix);
  }
  return chosen;
}

}  // namespace protean::apps
