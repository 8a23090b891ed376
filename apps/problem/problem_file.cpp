#include "apps/problem/problem_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "apps/problem/engine_keys.hpp"
#include "apps/problem/field_keys.hpp"
#include "apps/problem/format_keys.hpp"
#include "apps/problem/generated_matrix.hpp"
#include "apps/problem/input.hpp"
#include "apps/problem/preconditioner_check.hpp"
#include "apps/problem/problem_keys.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/option_checks.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"

namespace protean::apps {
namespace {

class ProblemReader {
 public:
  explicit ProblemReader(const std::string& file) : folder_(folder_of_problem(file)) { problem_.file = file; }

  Problem read(const Node& root) {
    if (root.kind == Node::Kind::nothing)
      fail(root.place, "the problem file is empty; it needs at least `matrix:`");
    const KeySection top(root, "", "");
    problem_.title = top.text("title", "");
    if (!top.has("matrix"))
      fail(root.place,
           "the key 'matrix' is missing; write matrix: {file: A.mtx} or matrix: {generate: {kind: ...}}");
    read_matrix(*top.find("matrix"));
    if (const Node* node = top.find("rhs")) read_rhs(*node);
    if (const Node* node = top.find("initial_guess"))
      problem_.initial_guess = read_vector(*node, "initial_guess", {"zero", 0.0}, false);
    if (const Node* node = top.find("solver")) read_solver(*node);
    if (const Node* node = top.find("preconditioner")) read_preconditioner(with_fields_as_text(*node));
    if (const Node* node = top.find("operator")) read_operator(*node);
    check_device_options();
    check_preconditioner(problem_, preconditioner_place_);
    if (const Node* node = top.find("schedule")) read_schedule(*node);
    check_choice();
    if (const Node* node = top.find("output")) read_output(*node);
    read_engine(top, root.place, folder_, problem_);
    return std::move(problem_);
  }

 private:
  FilePath read_path(const Section& section, std::string_view key) const {
    const Node* node = section.find(key);
    return node ? file_below(folder_, *node, section.path_of(key)) : FilePath{};
  }

  // A file that is written. On the command line its path begins at the working folder; `-` is the standard output.
  FilePath read_output_path(const Section& section, std::string_view key) const {
    FilePath file = read_path(section, key);
    const Node* const node = section.find(key);
    if (file.given == AtomicFile::standard_output || (node && node->place.on_command_line))
      file.path = file.given;
    return file;
  }

  // Returns the one alternative of the section `of` that is given. Throws when none is, or more than one.
  static std::string_view exactly_one(const Section& section, const std::string& path, std::string_view of) {
    const std::vector<std::string_view> keys = alternatives_of(of);
    std::string_view found;
    for (std::string_view key : keys) {
      if (!section.has(key)) continue;
      if (!found.empty())
        fail(section.find(key)->place, fmt::format("{} has both '{}' and '{}'; give one of: {}", path, found,
                                                   key, fmt::join(keys, ", ")));
      found = key;
    }
    if (found.empty())
      fail(section.place(), fmt::format("{} needs one of the keys: {}", path, fmt::join(keys, ", ")));
    return found;
  }

  void read_matrix(const Node& node) {
    MatrixSpec& matrix = problem_.matrix;
    const KeySection section(node, "matrix", "matrix");
    matrix.place = node.place;
    matrix.scale = section.number("scale");
    matrix.scale_place = section.has("scale") ? section.find("scale")->place : node.place;
    if (matrix.scale == 0)
      fail(matrix.scale_place, "matrix.scale is 0; it must be another number, for example -1");
    read_settings(section, "matrix");
    if (exactly_one(section, "matrix", "matrix") == "file") {
      matrix.file = read_path(section, "file");
      matrix.duplicates = section.word("duplicates") == "sum" ? Duplicates::sum : Duplicates::refuse;
      return;
    }
    if (section.has("duplicates"))
      fail(section.find("duplicates")->place,
           "matrix.duplicates belongs to matrix.file; generated matrices have none");
    read_generated_matrix(*section.find("generate"), folder_, problem_);
  }

  bool on_elements() const noexcept { return problem_.matrix.fem && !problem_.matrix.fem->assembled; }

  // A solve on element matrices has no storage format to choose.
  void check_operator_on_elements(const KeySection& section) {
    for (const std::string_view key : {"format", "kernel", "parameters", "parts"})
      if (const Node* given = section.find(key))
        fail(given->place,
             fmt::format("operator.{} has no meaning here: with matrix.generate.storage: element the solve "
                         "begins on the element matrices, with the native kernel. Remove it "
                         "(operator.variant says how contributions are added; a schedule changes to "
                         "formats), or use storage: assembled",
                         key));
    if (const Node* given = section.find("deterministic"); given && section.yes("deterministic"))
      fail(given->place,
           "operator.deterministic: products with element matrices have no deterministic mode; use "
           "matrix.generate.storage: assembled");
    const std::string variant = section.word("variant");
    for (const auto scatter : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather})
      if (to_string(scatter) == variant) problem_.op.variant = scatter;
  }

  struct Named {
    std::string_view word;
    double value;
  };

  // Reads the word `named`, {file: ...}, {random: seed} or, if with_value is true, {value: number}.
  VectorSpec read_vector(const Node& node, const std::string& path, Named named, bool with_value) const {
    if (node.kind == Node::Kind::scalar) {
      if (node.text != named.word)
        fail(node.place, fmt::format("{} is '{}'; it must be {}, {{file: x.mtx}}{} or {{random: 1}}.{}", path,
                                     excerpt(node.text), named.word, with_value ? ", {value: 1.0}" : "",
                                     detail::did_you_mean(node.text, std::array{named.word})));
      return {.file = {}, .seed = {}, .value = named.value};
    }
    const KeySection section(node, path, path);
    return vector_of(section, exactly_one(section, path, path));
  }

  VectorSpec vector_of(const KeySection& section, std::string_view key) const {
    VectorSpec spec;
    if (key == "file")
      spec.file = read_path(section, "file");
    else if (key == "random")
      spec.seed = section.integer("random");
    else
      spec.value = section.number("value");
    return spec;
  }

  void read_rhs(const Node& node) {
    const KeySection section(node, "rhs", "rhs");
    const std::string_view key = exactly_one(section, "rhs", "rhs");
    problem_.rhs.given = true;
    problem_.rhs.from_solution = key == "solution";
    problem_.rhs.vector = key == "solution"
                              ? read_vector(*section.find(key), "rhs.solution", {"ones", 1.0}, true)
                              : vector_of(section, key);
    problem_.rhs.columns = section.integer("columns");
    problem_.rhs.place = node.place;
    const Node* const columns = section.find("columns");
    if (!columns) return;
    problem_.rhs.columns_place = columns->place;
    if (problem_.rhs.columns > 1 && !problem_.rhs.vector.seed && !problem_.rhs.vector.file)
      fail(columns->place,
           "rhs.columns: several right-hand sides are made of random numbers (rhs: {random: 7, columns: 8}, "
           "or of a random solution), or read from a file with that many columns");
  }

  void read_solver(const Node& node) {
    const KeySection section(node, "solver", "solver");
    SolveSettings& settings = problem_.settings;
    read_settings(section, "solver");
    read_options(section, solver_options(), "method", settings.method, settings.solver);
    solver_node_ = &node;
  }

  // Those of the table that are given in this section, except the type of the preconditioner, and format and kernel,
  // whose names belong to the catalogue of formats.
  void read_settings(const KeySection& section, std::string_view of) {
    for (const Setting& one : solve_settings())
      if (one.section == of && one.name != "format" && one.name != "kernel") read_setting(section, one);
  }
  void read_setting(const KeySection& section, const Setting& one) {
    const Node* const given = section.find(one.key);
    if (!given) return;
    one.set(problem_.settings, section.option(one, one.key));
    problem_.places[one.name] = given->place;
  }

  // Reads those options of the table that are given. Each must have an effect with `reader`, which is a method or a
  // type of preconditioner (`of`), and with the other options. What depends on other sections is checked where these
  // are known.
  template <class Options>
  static void read_options(const KeySection& section, std::span<const Option<Options>> table,
                           std::string_view of, std::string_view reader, Options& options) {
    const std::string_view instead = "leave it out";
    for (const Option<Options>& option : table)
      if (const Node* const given = section.find(option.name)) {
        const OptionValue value = section.option(option);
        if (is_unread(option, reader, value))
          fail(given->place, unread_text(option, section.path_of(option.name), of, reader, instead));
        option.set(options, value);
      }
    for (const Option<Options>& option : table)
      if (const Node* const given = section.find(option.name); given && !in_use(table, option, options))
        fail(given->place, unused_text(option, section.path_of(option.name),
                                       find_option(table, option.with)->value(options), instead));
  }

  // Options that do nothing on a host.
  void check_device_options() const {
    if (!solver_node_ || problem_.op.space == Space::device) return;
    for (const Option<SolverOptions>& option : solver_options())
      if (option.on_device && !option.is_default(problem_.settings.solver))
        fail(solver_node_->find(option.name)->value.place,
             fmt::format("solver.{} has no effect on a host; leave it out, or take operator.space: device",
                         option.name));
  }

  void read_preconditioner(const Node& node) {
    SolveSettings& settings = problem_.settings;
    const KeySection section(node, "preconditioner", "preconditioner");
    preconditioner_place_ = problem_.places["preconditioner"] = problem_.places["parts"] = node.place;
    if (section.word("type") != "composition") {
      PreconditionerPart part = read_preconditioner_part(section);
      settings.preconditioner = part.id, settings.preconditioning = part.options;
      read_near_null_space(section), read_field_files(section);
      return;
    }
    for (const Node::Entry& entry : node.entries)
      if (entry.key != "type" && entry.key != "combine" && entry.key != "parts")
        fail(entry.place, fmt::format("preconditioner.{} belongs to a part: preconditioner.parts[0].{}",
                                      entry.key, entry.key));
    read_setting(section, solve_setting("combine"));
    const Node* const parts = section.find("parts");
    if (!parts || parts->kind != Node::Kind::list || parts->items.empty())
      fail(parts ? parts->place : node.place,
           "preconditioner.parts must be a list such as [{type: jacobi}, {type: ic0}] if the type is "
           "composition");
    for (std::size_t i = 0; i < parts->items.size(); ++i) {
      const Node& item = parts->items[i];
      const KeySection one(item, fmt::format("preconditioner.parts[{}]", i), "preconditioner");
      for (const std::string_view key : {"coordinates", "near_null_space", "labels", "schur_operator"})
        if (const Node* given = one.find(key))
          fail(given->place,
               fmt::format("{} is for a preconditioner that is not part of a composition; leave it out",
                           one.path_of(key)));
      if (const std::string type = one.word("type"); type == "composition" || type == "none")
        fail(item.place,
             fmt::format("preconditioner.parts[{}].type is {}; a part is one of the other types", i, type));
      settings.parts.push_back(read_preconditioner_part(one));
    }
  }

  // Files whose vectors are read with the matrix.
  void read_near_null_space(const KeySection& section) {
    NearNullSpaceSpec& spec = problem_.near_null_space;
    const std::string& type = problem_.settings.preconditioner;
    for (const std::string_view key : {"coordinates", "near_null_space"}) {
      const Node* const given = section.find(key);
      if (!given) continue;
      if (!reads_near_null_space(type))
        fail(given->place, fmt::format("{} is for preconditioner.type amg or auto; the type is {}",
                                       section.path_of(key), type));
      if (problem_.settings.preconditioning.setup != AmgSetup::aggregation)
        fail(given->place, fmt::format("{} is for preconditioner.setup aggregation", section.path_of(key)));
      if (spec.coordinates)
        fail(given->place,
             "preconditioner has both 'coordinates' and 'near_null_space'; give one of them: the modes of "
             "rigid bodies are made of coordinates");
      (key == "coordinates" ? spec.coordinates : spec.vectors) = read_path(section, key);
    }
  }

  // The same of type fields.
  void read_field_files(const KeySection& section) {
    const SolveSettings& settings = problem_.settings;
    for (const std::string_view key : {"labels", "schur_operator"}) {
      const Node* const given = section.find(key);
      if (!given) continue;
      if (settings.preconditioner != "fields")
        fail(given->place, fmt::format("{} is for preconditioner.type fields; the type is {}",
                                       section.path_of(key), settings.preconditioner.name()));
      if (key == "labels" &&
          (settings.preconditioning.fields != "auto" || settings.preconditioning.interleaved > 0))
        fail(
            given->place,
            "preconditioner.labels says which rows form a field, as fields or interleaved does; leave one out");
      (key == "labels" ? problem_.fields.labels : problem_.fields.schur_operator) = read_path(section, key);
    }
  }

  // The type and its options.
  static PreconditionerPart read_preconditioner_part(const KeySection& section) {
    PreconditionerPart part{section.word("type"), {}};
    for (const std::string_view key : {"combine", "parts"})
      if (const Node* given = section.find(key))
        fail(given->place,
             fmt::format("{} is for type composition; the type is {}", section.path_of(key), part.id));
    read_options(section, preconditioner_options(), "type", part.id, part.options);
    return part;
  }

  void read_operator(const Node& node) {
    const KeySection section(node, "operator", "operator");
    OperatorSpec& op = problem_.op;
    if (on_elements())
      check_operator_on_elements(section);
    else if (const Node* variant = section.find("variant"))
      fail(variant->place,
           "operator.variant says how element matrices are applied; it needs matrix.generate.storage: "
           "element");
    SolveSettings& settings = problem_.settings;
    if (const Node* format = section.find("format"))
      settings.format = read_format(*format, "operator.format", {"auto"});
    op.space = section.word("space") == "host" ? Space::host : Space::device;
    read_devices(section, op);
    op.threads = static_cast<int>(section.integer("threads"));
    op.deterministic = section.yes("deterministic");
    if (const Node* kernel = section.find("kernel"))
      settings.kernel = read_kernel(*kernel, "operator.kernel", settings.format);
    settings.parameters = read_parameters(section, "operator", settings.format);
    read_settings(section, "operator");
  }

  // They choose a format or an order, and the policy reckons with them; nothing else reads them.
  void check_choice() const {
    const SolveSettings& settings = problem_.settings;
    const bool chooses = settings.policy == "auto" || (settings.format == "auto" && !on_elements());
    const auto check = [&](std::string_view setting, bool read, std::string_view readers) {
      if (read || !problem_.places.contains(setting)) return;
      fail(problem_.place_of(setting),
           fmt::format("operator.{} is for {}; {}: leave it out", setting, readers,
                       on_elements() ? "the solve is on element matrices"
                                     : fmt::format("the format is {}", settings.format)));
    };
    check("expected_iterations", chooses || settings.order == "auto",
          "format auto, matrix.order auto and schedule.policy auto");
    check("selector", chooses, "format auto and schedule.policy auto");
    check("precision", settings.precision == "double" || may_decide(settings), "a policy that decides");
  }

  void read_schedule(const Node& node) {
    ScheduleSpec& schedule = problem_.schedule;
    SolveSettings& settings = problem_.settings;
    schedule.place = node.place;
    if (node.kind == Node::Kind::map) {
      const KeySection section(node, "schedule", "schedule");
      if (!section.has("policy"))
        fail(node.place, "schedule needs a list of points, or the key 'policy' with the value auto");
      read_settings(section, "schedule");
      schedule.machine = read_path(section, "machine");
      if (section.has("overlapped"))
        settings.overlapped = section.Section::word("overlapped", "true", {"true", "false"}) == "true";
      read_options(section, policy_options(), "policy", settings.policy, settings.policy_options);
      if (settings.policy != "auto")
        for (const Node::Entry& entry : node.entries)
          if (entry.key != "policy" && entry.key != "machine")
            fail(entry.place,
                 fmt::format("schedule.{} is for schedule.policy auto; the policy is {}: leave it out",
                             entry.key, settings.policy));
      return;
    }
    if (node.kind != Node::Kind::list)
      fail(node.place,
           "schedule must be a list such as [{at_iteration: 20, format: sell-packed}], or {policy: auto}");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      problem_.settings.schedule.push_back(
          read_point(node.items[i], fmt::format("schedule[{}]", i), on_elements()));
      schedule.places.push_back(node.items[i].place);
    }
  }

  // With element matrices, format `element` means a change back to them.
  static SchedulePoint read_point(const Node& node, const std::string& path, bool on_elements) {
    const KeySection section(node, path, "schedule[]");
    SchedulePoint point;
    const std::string_view trigger = exactly_one(section, path, "schedule[]");
    if (trigger == "at_iteration") {
      point.trigger = ScheduleTrigger::iteration;
      point.at = static_cast<double>(section.integer(trigger));
    } else if (trigger == "at_residual") {
      point.trigger = ScheduleTrigger::residual;
      point.at = section.number(trigger);
    } else {
      point.trigger = ScheduleTrigger::seconds;
      point.at = section.number(trigger);
    }
    point.overlapped = section.yes("overlapped");
    const Node* const format = section.find("format");
    const Node* const order = section.find("order");
    if (!format && !order)
      fail(node.place, fmt::format("{} needs the key 'format' or 'order': what to change to", path));
    if (order) point.to.order = section.word("order");
    if (!format) {
      for (const std::string_view key : {"kernel", "parameters", "parts"})
        if (const Node* given = section.find(key))
          fail(given->place, fmt::format("{}.{} belongs to a format; add the key 'format'", path, key));
      if (on_elements)
        fail(node.place,
             fmt::format("{} needs the key 'format', too: element matrices have no other order", path));
      return point;
    }
    const std::string id =
        read_format(*format, path + ".format",
                    on_elements ? std::vector<std::string_view>{"element"} : std::vector<std::string_view>{});
    if (on_elements && id == "element") {
      for (const std::string_view key : {"kernel", "parameters", "parts", "order"})
        if (const Node* given = section.find(key))
          fail(given->place, fmt::format("{}.{} has no meaning with format element", path, key));
      point.to.elements = true;
      return point;
    }
    point.to.entry = &find_format(id);
    if (const Node* kernel = section.find("kernel"))
      point.to.kernel = read_kernel(*kernel, path + ".kernel", id);
    point.to.params = read_parameters(section, path, id);
    return point;
  }

  void read_output(const Node& node) {
    const KeySection section(node, "output", "output");
    OutputSpec& output = problem_.output;
    output.solution = read_output_path(section, "solution");
    output.report = read_output_path(section, "report");
    output.history = read_output_path(section, "history");
    output.fields = read_output_path(section, "fields");
  }

  std::filesystem::path folder_;
  Problem problem_;
  Place preconditioner_place_;
  const Node* solver_node_ = nullptr;
};

}  // namespace

Problem parse_problem(std::string_view text, const std::string& file, std::span<const std::string> settings,
                      std::span<const OptionSetting> options) {
  Node root = parse_yaml(text, file);
  for (const std::string& setting : settings) set_value(root, setting);
  for (const OptionSetting& option : options) set_value(root, option);
  return ProblemReader(file).read(root);
}

Problem read_problem(const std::string& file, std::span<const std::string> settings,
                     std::span<const OptionSetting> options) {
  if (!is_matrix_file(file)) return parse_problem(read_problem_text(file), file, settings, options);
  Node name, matrix, root;
  name.kind = Node::Kind::scalar;
  name.text = folder_of_problem(file).empty() ? file : std::filesystem::path(file).filename().string();
  matrix.kind = root.kind = Node::Kind::map;
  matrix.entries.push_back({"file", {}, std::move(name)});
  root.entries.push_back({"matrix", {}, std::move(matrix)});
  for (const std::string& setting : settings) set_value(root, setting);
  for (const OptionSetting& option : options) set_value(root, option);
  return ProblemReader(file).read(root);
}

}  // namespace protean::apps
