#include "apps/command/files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"

namespace protean::apps {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const Place& place, const std::string& message) {
  if (place.file) fail(place, message);
  throw BadArgument(message);
}

// True also for two names of one file: hard links, or a folder that is mounted twice.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code code;
  return real_path(a) == real_path(b) || fs::equivalent(a, b, code);
}

// False for devices and pipes: several outputs may go to one, and writing to one destroys no input.
bool can_be_overwritten(const std::string& path) {
  if (path == AtomicFile::standard_output) return false;
  const io_detail::FileKind kind = io_detail::kind_of(path);
  return kind == io_detail::FileKind::missing || kind == io_detail::FileKind::unreachable ||
         kind == io_detail::FileKind::ordinary;
}

// False for an option of the command, whose path begins at the working folder.
bool begins_at_the_problem(const Place& place) {
  return place.file && (!place.on_command_line || place.file->starts_with("--set "));
}

// The message for a missing file, with the nearest name in its folder.
std::string missing_file(const std::string& name, const std::string& given) {
  const fs::path path(given);
  const fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    names.push_back(entry->path().filename().string());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string no_folder =
      fs::is_directory(folder, code) ? "" : fmt::format("; there is no folder '{}' either", folder.string());
  const std::string other = io_detail::with_other_ending(given);
  std::string hint = other.empty() ? detail::did_you_mean(path.filename().string(), views)
                                   : fmt::format(" Did you mean '{}'?", fs::path(other).filename().string());
  // The path of a problem file is made plain, which takes one of the two slashes out.
  if (given.starts_with("http:/") || given.starts_with("https:/"))
    hint = " Files are read from this machine only: download it first.";
  if (given.find("~/") != std::string::npos)
    hint = " Only a shell replaces `~` by the home folder: write its path.";
  return fmt::format("{}: there is no file '{}'{}.{}", name, given, no_folder, hint);
}

}  // namespace

fs::path real_path(const std::string& path) {
  std::error_code code;
  // Made absolute first: weakly_canonical() leaves a relative path as it is when no part of it exists yet.
  fs::path result = fs::weakly_canonical(fs::absolute(path, code), code);
  return code ? fs::path(path) : result;
}

void CommandFiles::reads(std::string name, const std::string& path, const Place& place) {
  if (!path.empty()) inputs_.push_back({std::move(name), path, place});
}

void CommandFiles::writes(std::string name, const std::string& path, const Place& place) {
  if (!path.empty()) outputs_.push_back({std::move(name), path, place});
}

void CommandFiles::reads(const Problem& problem) {
  const auto add = [&](std::string_view name, const FilePath& file) {
    reads(std::string(name), file.path, file.place);
  };
  // The file of the command may be the matrix itself.
  if (problem.file != problem.matrix.file.path)
    inputs_.push_back({"the problem file", problem.file, {}, false});
  add("matrix.file", problem.matrix.file);
  add("matrix.generate.mesh", problem.matrix.mesh);
  add(problem.rhs.from_solution ? "rhs.solution.file" : "rhs.file", problem.rhs.vector.file);
  add("initial_guess.file", problem.initial_guess.file);
  add("preconditioner.coordinates", problem.near_null_space.coordinates);
  add("preconditioner.near_null_space", problem.near_null_space.vectors);
  add("preconditioner.labels", problem.fields.labels);
  add("preconditioner.schur_operator", problem.fields.schur_operator);
  add("schedule.machine", problem.schedule.machine);
  add("partition.file", problem.engine.partition_file);
  if (const char* machine = std::getenv("PROTEAN_MACHINE"); machine && *machine)
    inputs_.push_back({"the machine table of PROTEAN_MACHINE", machine, {}, false});
}

void CommandFiles::require_one_reader_of_each_pipe() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    for (std::size_t other = 0; other < i; ++other)
      if (io_detail::kind_of(inputs_[i].path) == io_detail::FileKind::pipe &&
          same_file(inputs_[i].path, inputs_[other].path))
        refuse(
            inputs_[i].place,
            fmt::format("{} and {} are one pipe '{}', which can be read once only; give one of them a file",
                        inputs_[other].name, inputs_[i].name, inputs_[i].path));
}

void CommandFiles::require_inputs() const {
  require_one_reader_of_each_pipe();
  for (const File& input : inputs_) {
    if (!input.checked) continue;
    if (io_detail::kind_of(input.path) == io_detail::FileKind::missing)
      refuse(input.place, missing_file(input.name, input.path) +
                              (begins_at_the_problem(input.place)
                                   ? " Relative paths begin at the folder of the problem file."
                                   : ""));
    try {
      const io_detail::InputFile opened(input.path);
    } catch (const Error& error) { refuse(input.place, fmt::format("{}: {}", input.name, error.what())); }
  }
}

void CommandFiles::require_outputs() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const File& output = outputs_[i];
    for (std::size_t other = 0; other < i; ++other)
      if (output.path == AtomicFile::standard_output && outputs_[other].path == output.path)
        refuse(output.place, fmt::format("{} and {} are both the standard output; give one of them a file",
                                         outputs_[other].name, output.name));
    if (can_be_overwritten(output.path)) {
      for (const File& input : inputs_)
        if (same_file(input.path, output.path))
          refuse(output.place, fmt::format("{} would overwrite {} '{}'; give another path than '{}'",
                                           output.name, input.name, input.path, output.path));
      for (std::size_t other = 0; other < i; ++other)
        if (same_file(outputs_[other].path, output.path))
          refuse(output.place, fmt::format("{} and {} are the same file '{}'; give two files",
                                           outputs_[other].name, output.name, output.path));
    }
    try {
      const AtomicFile probe(output.path);  // leaves nothing, since it is not committed
    } catch (const WriteFailed& error) {
      throw WriteFailed(fmt::format("{}: {}", output.name, error.what()));
    } catch (const Error& error) { refuse(output.place, fmt::format("{}: {}", output.name, error.what())); }
  }
}

// By system calls alone: there may be no memory left.
bool remove_old_report(const std::string& path) noexcept {
  if (path == AtomicFile::standard_output || io_detail::kind_of(path) != io_detail::FileKind::ordinary)
    return false;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return false;
  return (S_ISLNK(status.st_mode) ? truncate(path.c_str(), 0) : unlink(path.c_str())) == 0;
}

void OutputWriter::write(const std::string& name, const std::string& path, const std::function<void()>& write,
                         bool is_report) {
  if (path.empty()) return;
  std::string why;
  try {
    return write();
  } catch (const std::bad_alloc&) {
    why = fmt::format("cannot write '{}': out of memory", path);
  } catch (const std::exception& error) { why = error.what(); }
  if (is_report && remove_old_report(path)) why += "; the report of an earlier run was removed";
  failures_.push_back({name, path, why});
}

void OutputWriter::require_all(const std::string& more) const {
  if (failures_.empty()) return;
  std::string text;
  for (const Failure& failure : failures_)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ". ", failure.name, failure.why);
  throw WriteFailed(text + more);
}

}  // namespace protean::apps
