#include "apps/reproduce/reproduce.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/lists.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "apps/reproduce/entries.hpp"
#include "apps/reproduce/write.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"

namespace protean::apps {
namespace {

Size size_of(const std::string& word) {
  for (const Size size : {Size::quick, Size::day, Size::full})
    if (to_string(size) == word) return size;
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

// The JSON files of a folder, or the file.
std::vector<Exhibit> read_exhibits(const std::string& from) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(from)) {
    for (const auto& entry : std::filesystem::directory_iterator(from))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    if (files.empty()) throw BadArgument(fmt::format("--from {}: the folder has no .json file", from));
  } else {
    files.emplace_back(from);
  }
  std::vector<Exhibit> exhibits;
  for (const auto& path : files) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw BadArgument(fmt::format("--from {}: the file cannot be read", path.string()));
    std::ostringstream text;
    text << stream.rdbuf();
    exhibits.push_back(parse_exhibit(text.str(), path.string()));
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
  for (const Entry& entry : entries()) {
    if (entry.paper != paper)
      for (const PaperInfo& info : papers_reproduced())
        if (info.key == entry.paper) text += fmt::format("\n{}: {}\n", info.key, info.citation);
    paper = entry.paper;
    text += fmt::format("{:<14} {:<62} {}\n", entry.id, entry.title, entry.needs);
  }
  return text;
}

int reproduce(const ReproduceArguments& arguments) {
  if (arguments.list) {
    print(reproduce_list());
    return 0;
  }
  const auto width = static_cast<std::size_t>(std::max(terminal_width(STDOUT_FILENO), 80));
  if (!arguments.from.empty()) {
    std::vector<Exhibit> exhibits = read_exhibits(arguments.from);
    if (!arguments.name.empty() && arguments.name != "all") {
      const auto wanted = entries_named(arguments.name);
      std::erase_if(exhibits, [&](const Exhibit& e) {
        return std::none_of(wanted.begin(), wanted.end(),
                            [&](const Entry* entry) { return entry->id == e.id; });
      });
      if (exhibits.empty())
        throw BadArgument(fmt::format("--from {}: '{}' is not in it", arguments.from, arguments.name));
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

}  // namespace protean::apps
