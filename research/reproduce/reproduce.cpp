#include "research/reproduce/reproduce.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/lists.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/limits.hpp"
#include "research/reproduce/entries.hpp"
#include "research/reproduce/write.hpp"

namespace protean::research {
namespace {

Size size_of(const std::string& word) {
  for (const SizeInfo& info : sizes())
    if (to_string(info.size) == word) return info.size;
  throw BadArgument(fmt::format("--size '{:.50}': the sizes are quick, day and full", word));
}

LabOptions options_of(const ReproduceArguments& arguments) {
  LabOptions options;
  options.size = size_of(arguments.size);
  const std::vector<Space> given = spaces(arguments.space);
  if (given.size() != 1)
    throw BadArgument(fmt::format("--space '{:.50}': give host or device", arguments.space));
  options.space = given.front();
  options.threads = arguments.threads;
  options.folder = arguments.matrices;
  if (!options.folder.empty() && !std::filesystem::is_directory(options.folder))
    throw BadArgument(fmt::format(
        "--matrices {}: there is no such folder; give one with NAME.mtx, .mtx.gz, .mtx.xz or .pbin",
        options.folder));
  return options;
}

// The JSON files of a folder, or the file, which an option gives.
std::vector<Exhibit> read_exhibits(std::string_view option, const std::string& from) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(from)) {
    for (const auto& entry : std::filesystem::directory_iterator(from))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    if (files.empty()) throw BadArgument(fmt::format("{} {}: the folder has no .json file", option, from));
  } else {
    files.emplace_back(from);
  }
  std::vector<Exhibit> exhibits;
  for (const auto& path : files) {
    exhibits.push_back(
        parse_exhibit(io_detail::read_text(path.string(), io_detail::most_whole_file), path.string()));
  }
  // In the order of the list; others behind.
  const auto place = [](const Exhibit& e) {
    const auto all = entries();
    return std::find_if(all.begin(), all.end(), [&](const Entry& entry) { return entry.id == e.id; }) -
           all.begin();
  };
  std::stable_sort(exhibits.begin(), exhibits.end(),
                   [&](const Exhibit& a, const Exhibit& b) { return place(a) < place(b); });
  return exhibits;
}

// Those that `name` names; empty: all.
std::vector<Exhibit> exhibits_of(std::string_view option, const std::string& from, const std::string& name) {
  std::vector<Exhibit> exhibits = read_exhibits(option, from);
  if (name.empty() || name == "all") return exhibits;
  const auto wanted = entries_named(name);
  std::erase_if(exhibits, [&](const Exhibit& e) {
    return std::none_of(wanted.begin(), wanted.end(), [&](const Entry* entry) { return entry->id == e.id; });
  });
  if (exhibits.empty()) throw BadArgument(fmt::format("{} {}: '{}' is not in it", option, from, name));
  return exhibits;
}

void write_all(const std::string& folder, const std::vector<Exhibit>& exhibits, bool summary) {
  const auto path = [&](const std::string& name) { return (std::filesystem::path(folder) / name).string(); };
  for (const Exhibit& e : exhibits) {
    write_file(path(e.id + ".json"), exhibit_json(e));
    write_file(path(e.id + ".csv"), exhibit_csv(e));
    if (!summary) write_file(path(e.id + ".html"), exhibits_html({&e, 1}));
  }
  if (!summary) return;
  write_file(path("index.html"), exhibits_html(exhibits));
  write_file(path("README.md"), exhibits_summary(exhibits));
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder))
    throw BadArgument(fmt::format("-o {}: the folder cannot be made: {}", folder, error.message()));
}

}  // namespace

std::string reproduce_list() {
  std::string text = fmt::format("{:<14} {:<62} {}\n", "id", "what the paper shows", "needs");
  std::string_view paper;
  int results = 0;
  for (const Entry& entry : entries()) {
    if (entry.paper != paper)
      for (const PaperInfo& info : papers_reproduced())
        if (info.key == entry.paper) text += fmt::format("\n{}: {}\n", info.key, info.citation);
    paper = entry.paper;
    text += fmt::format("{:<14} {:<62} {}\n", entry.id, entry.title,
                        entry.result ? entry.needs : "describes matrices or machines");
    results += entry.result;
  }
  text += fmt::format("\n{} tables and figures, {} of them results.\n", entries().size(), results);
  const auto million = [](std::int64_t entries) {
    return entries == 0 ? std::string("the paper's")
                        : fmt::format("{:g}", static_cast<double>(entries) * 1e-6);
  };
  text += fmt::format("\nWhat --size changes:\n{:<6} {:>25} {:>21} {:>17} {:>14} {:>15}\n", "",
                      "million entries, host, GPU", "runs of a product", "seconds of them", "S3, Table I",
                      "matrices, friends");
  for (const SizeInfo& info : sizes())
    text += fmt::format("{:<6} {:>26} {:>21} {:>17} {:>14} {:>17}\n", to_string(info.size),
                        fmt::format("{}, {}", million(info.most_entries[0]), million(info.most_entries[1])),
                        fmt::format("{} to {}", info.limits.fewest, info.limits.most), info.limits.seconds,
                        info.whole_table ? "all values" : "its ends",
                        fmt::format("{}, {}", info.validation, info.friends));
  return text +
         "A generated matrix has so many entries at most, or those of its paper. Real matrices and the pde "
         "matrices are whole in each size.\n";
}

int reproduce(const ReproduceArguments& arguments) {
  if (arguments.list) {
    print(reproduce_list());
    return 0;
  }
  const auto width = static_cast<std::size_t>(std::max(terminal_width(STDOUT_FILENO), 80));
  if (!arguments.beside.empty() && arguments.from.empty())
    throw BadArgument("--beside shows a second run next to the run of --from; give --from FOLDER, too");
  if (!arguments.from.empty()) {
    const std::vector<Exhibit> exhibits = exhibits_of("--from", arguments.from, arguments.name);
    if (!arguments.beside.empty()) {
      const std::vector<Exhibit> others = exhibits_of("--beside", arguments.beside, arguments.name);
      make_folder(arguments.output);
      const std::filesystem::path folder = arguments.output;
      write_file((folder / "index.html").string(), beside_html({exhibits, others}));
      const std::string summary = beside_summary({exhibits, others});
      write_file((folder / "README.md").string(), summary);
      if (!arguments.quiet) print(summary);
      return 0;
    }
    make_folder(arguments.output);
    write_all(arguments.output, exhibits, exhibits.size() > 1);
    if (!arguments.quiet)
      for (const Exhibit& e : exhibits) print(exhibit_text(e, width));
    return 0;
  }
  if (arguments.name.empty())
    throw BadArgument(
        "reproduce needs an id, a paper (s0 to s4) or all; `protean reproduce --list` lists them");
  const std::vector<const Entry*> wanted = entries_named(arguments.name);
  const LabOptions options = options_of(arguments);
  make_folder(arguments.output);
  Progress progress(!arguments.quiet);
  const InterruptGuard guard;
  std::string now;
  Lab lab(options, built_in_papers(),
          [&](const std::string& text) { progress.stage(fmt::format("{}: {}", now, text)); });
  std::vector<Exhibit> done;
  int broken = 0;
  for (const Entry* entry : wanted) {
    now = entry->id;
    progress.stage(now);
    Exhibit exhibit;
    try {
      exhibit = run_entry(*entry, lab);
    } catch (const Error& error) {
      if (wanted.size() == 1) throw;
      progress.clear();
      ++broken;
      fmt::print(stderr, "protean: error: {}: {}\n", entry->id, error.what());
      continue;
    }
    // What was interrupted lacks rows.
    if (InterruptGuard::asked()) break;
    progress.clear();
    if (!arguments.quiet) print(exhibit_text(exhibit, width));
    done.push_back(std::move(exhibit));
    write_all(arguments.output, {&done.back(), &done.back() + 1}, wanted.size() > 1);
  }
  progress.clear();
  if (wanted.size() > 1) write_all(arguments.output, done, true);
  if (InterruptGuard::asked()) return InterruptGuard::exit_code();
  return broken > 0 ? 1 : 0;
}

}  // namespace protean::research
