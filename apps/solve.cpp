#include "apps/solve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "apps/progress.hpp"
#include "apps/report.hpp"
#include "core/blas1.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/parallel.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"

namespace protean::apps {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t interrupt_asked = 0;

// While it lives the first SIGINT or SIGTERM only raises a flag; the second one ends the process as ever.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupt_asked = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupt_asked = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~InterruptGuard() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

class Observer final : public SolveObserver {
 public:
  Observer(Progress& progress, const StoppingRule& rule, bool keep_history)
      : progress_(progress), rule_(rule), keep_history_(keep_history) {}
  bool on_iteration(const IterationInfo& info) override {
    if (keep_history_) history_.push_back(info);
    progress_.iteration(info, rule_);
    return interrupt_asked == 0;
  }
  const std::vector<IterationInfo>& history() const noexcept { return history_; }

 private:
  Progress& progress_;
  const StoppingRule& rule_;
  bool keep_history_;
  std::vector<IterationInfo> history_;
};

class Clock {
 public:
  // Seconds since the last lap; since the start.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return seconds(std::exchange(last_, now), now);
  }
  double total() const { return seconds(start_, std::chrono::steady_clock::now()); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static double seconds(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }
  Time start_ = std::chrono::steady_clock::now(), last_ = start_;
};

// Before anything large is read.
void require_input(const FilePath& file, std::string_view key) {
  if (!file) return;
  std::error_code code;
  const fs::path path(file.path);
  if (fs::is_directory(path, code))
    fail(file.place, fmt::format("{}: '{}' is a folder, not a file", key, file.path));
  if (fs::exists(path, code)) return;
  const fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    names.push_back(entry->path().filename().string());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string why =
      fs::is_directory(folder, code) ? "" : fmt::format("; there is no folder '{}' either", folder.string());
  fail(file.place,
       fmt::format("{}: there is no file '{}'{} (paths begin at the folder of the problem file).{}", key,
                   file.path, why, did_you_mean(path.filename().string(), views)));
}

// Where a path leads, whatever way it is written.
fs::path canonical(const std::string& path) {
  std::error_code code;
  fs::path result = fs::weakly_canonical(path, code);
  return code ? fs::path(path) : result;
}

void require_outputs(const Problem& problem) {
  struct Named {
    std::string_view key;
    const FilePath& file;
  };
  const Named outputs[] = {{"output.solution", problem.output.solution},
                           {"output.report", problem.output.report},
                           {"output.history", problem.output.history}};
  const FilePath self{problem.file, problem.file, {}};
  const Named inputs[] = {{"the problem file", self},
                          {"matrix.file", problem.matrix.file},
                          {"rhs", problem.rhs.vector.file},
                          {"initial_guess", problem.initial_guess.file}};
  for (const Named& output : outputs) {
    if (!output.file) continue;
    std::error_code code;
    const bool ordinary = !fs::exists(output.file.path, code) || fs::is_regular_file(output.file.path, code);
    for (const Named& other : outputs)
      if (ordinary && &other != &output && other.file &&
          canonical(other.file.path) == canonical(output.file.path))
        fail(output.file.place, fmt::format("{} and {} are the same file '{}'; give two", output.key,
                                            other.key, output.file.path));
    for (const Named& input : inputs)
      if (input.file && canonical(input.file.path) == canonical(output.file.path))
        fail(output.file.place, fmt::format("{} would overwrite {} '{}'; give another path", output.key,
                                            input.key, output.file.path));
    try {
      const AtomicFile probe(output.file.path);  // removed again, since it is not committed
    } catch (const Error& error) { fail(output.file.place, fmt::format("{}: {}", output.key, error.what())); }
  }
}

// Uniform in [-1, 1), the same for any number of threads: a hash (splitmix64) of seed and index.
double random_value(std::uint64_t seed, std::int64_t index) {
  std::uint64_t z =
      seed * 0xd1342543de82ef95ULL + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(index) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-52 - 1;
}

Vector<double> make_vector(const ContextPtr& context, const VectorSpec& spec, std::int64_t size,
                           std::string_view key) {
  if (spec.file) {
    Vector<double> vector = read_vector_market(context, spec.file.path);
    if (vector.size() != size)
      fail(spec.file.place, fmt::format("{}: '{}' has {} entries; the matrix has {} rows", key,
                                        spec.file.path, vector.size(), size));
    return vector;
  }
  Vector<double> vector(context, size);
  parallel(*context, [&](int part, int parts) {
    const Range range = even_range(size, part, parts);
    for (std::int64_t i = range.begin; i < range.end; ++i)
      vector[i] = spec.seed ? random_value(static_cast<std::uint64_t>(*spec.seed), i) : spec.value;
  });
  return vector;
}

ContextPtr device_context() {
  try {
    return Context::device();
  } catch (const NotAvailable& error) {
    throw NotAvailable(
        fmt::format("operator.space is device, but {}. On the CPU: --set operator.space=host", error.what()));
  }
}

// The vector in the memory of `target`; the copy is made by `device`.
Vector<double> moved(const ContextPtr& target, const Context& device, Vector<double>&& vector) {
  Vector<double> copied(target, vector.size());
  copy<double>(device, vector, copied);
  return copied;
}

CsrMatrix<double> make_csr(const ContextPtr& context, const MatrixSpec& spec) {
  CsrMatrix<double> csr;
  if (spec.file)
    csr = read_matrix(context, spec.file.path, {.duplicates = spec.duplicates, .allow_not_finite = false});
  else
    csr = generate(context, spec.kind, spec.params);
  const std::string what = spec.file ? fmt::format("the matrix '{}'", spec.file.path) : "the matrix";
  if (csr.rows() == 0 || csr.cols() == 0)
    fail(spec.place,
         fmt::format("{} is empty ({} x {}); there is nothing to solve", what, csr.rows(), csr.cols()));
  if (csr.rows() != csr.cols())
    fail(spec.place, fmt::format("{} has {} rows and {} columns; a system A x = b needs a square one", what,
                                 csr.rows(), csr.cols()));
  return csr;
}

const FormatEntry& pick_format(const Context& context, const CsrMatrix<double>& csr, const OperatorSpec& op,
                               std::string& reason) {
  if (op.format != "auto") return find_format(op.format);
  if (op.kernel != "native") {
    reason = fmt::format("csr, the plainest format, since kernel {} was asked for", op.kernel);
    return find_format("csr");
  }
  const FormatChoice choice = choose_format(statistics(context, csr.pattern));
  reason = choice.reason;
  return find_format(choice.id);
}

std::string advise(const Context& context, const CsrMatrix<double>& csr, const SolveRecord& record) {
  const SolveReport& result = record.result;
  if (result.converged()) return {};
  std::string text(protean::advice(result.reason));
  if (record.problem.solver.method == "cg" && result.reason != StopReason::interrupted) {
    const double difference = asymmetry(context, csr);
    if (difference > 1e-12)
      text += fmt::format(
          " The matrix is not symmetric ({}); cg needs a symmetric one: use method gmres or bicgstab.",
          std::isinf(difference) ? std::string("its pattern is not")
                                 : fmt::format("entries differ by up to {:.1e} of the largest", difference));
  }
  return text;
}

double relative_error(const Vector<double>& x, const Vector<double>& exact) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - exact[i]) * (x[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

}  // namespace

int solve(const SolveArguments& arguments) {
  Clock clock;
  SolveRecord record;
  Problem& problem = record.problem;
  problem = read_problem(arguments.problem, arguments.settings);
  if (!arguments.report.empty())
    problem.output.report = {arguments.report,
                             arguments.report,
                             {std::make_shared<const std::string>("--report " + arguments.report), 0, 0}};
  if (arguments.threads > 0) problem.op.threads = arguments.threads;
  require_input(problem.matrix.file, "matrix.file");
  const std::string_view rhs_key = problem.rhs.from_solution ? "rhs.solution.file" : "rhs.file";
  require_input(problem.rhs.vector.file, rhs_key);
  require_input(problem.initial_guess.file, "initial_guess.file");
  require_outputs(problem);

  Progress progress(!arguments.quiet);
  const ContextPtr host = Context::host(problem.op.threads);
  const ContextPtr context = problem.op.space == Space::device ? device_context() : host;
  record.threads = host->threads();

  progress.stage(problem.matrix.file ? "reading the matrix" : "making the matrix");
  const CsrMatrix<double> csr = make_csr(host, problem.matrix);
  record.rows = csr.rows(), record.nonzeros = csr.nonzeros();
  Vector<double> x = make_vector(host, problem.initial_guess, csr.rows(), "initial_guess.file");
  Vector<double> b = make_vector(host, problem.rhs.vector, csr.rows(), rhs_key);
  Vector<double> exact;
  if (problem.rhs.from_solution) {
    // By csr whatever the format, so that every format gets the same b, bit for bit.
    exact = std::move(b);
    b = Vector<double>(host, csr.rows());
    make_matrix(find_format("csr"), csr, host)->apply(exact, b);
  }
  record.seconds.read = clock.lap();

  CsrMatrix<double> source = csr;
  if (context != host) {
    progress.stage("copying to the GPU");
    source = upload(context, csr);
    b = moved(context, *context, std::move(b)), x = moved(context, *context, std::move(x));
    record.seconds.upload = clock.lap();
  }

  progress.stage("converting the matrix");
  const FormatEntry& entry = pick_format(*host, csr, problem.op, record.format_reason);
  const auto A = make_matrix(entry, source, context, problem.op.parameters, problem.op.kernel);
  context->synchronize();
  record.format = entry.id, record.kernel = A->kernel(), record.parameters = A->params();
  record.matrix_bytes = A->bytes();
  record.seconds.convert = clock.lap();

  progress.stage("setting up");
  const auto M = make_preconditioner<double>(problem.preconditioner.type, *A, problem.preconditioner.options);
  if (M) M->ensure(*A);
  context->synchronize();
  const auto solver = make_solver<double>(problem.solver.method, problem.solver.options);
  record.seconds.setup = clock.lap();

  Observer observer(progress, problem.solver.options.stopping, static_cast<bool>(problem.output.history));
  const InterruptGuard guard;
  record.result = solver->solve(*A, b, x, M.get(), &observer);
  record.seconds.solve = clock.lap();
  if (context != host) {
    x = moved(host, *context, std::move(x));
    record.seconds.download = clock.lap();
  }
  progress.clear();

  record.products = A->products();
  record.advice = advise(*host, csr, record);
  if (problem.rhs.from_solution) record.error = relative_error(x, exact);
  (void)clock.lap();
  if (problem.output.solution)
    write_vector_market(
        problem.output.solution.path, x,
        fmt::format("x of A x = b, {}, true relative residual {:.3e}",
                    record.result.converged() ? "converged" : "not converged", record.result.true_relative));
  if (problem.output.history) write_file(problem.output.history.path, history_csv(observer.history()));
  record.seconds.write = clock.lap();
  record.peak_bytes = peak_memory();
  record.peak_buffer_bytes = peak_allocated_bytes();
  record.seconds.total = clock.total();
  if (problem.output.report) write_file(problem.output.report.path, report_json(record));
  if (!arguments.quiet) {
    const std::string text = summary(record);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0)
      throw Error("cannot write the summary to the standard output: no space, or it was closed");
  }
  return record.result.converged() ? 0 : 1;
}

}  // namespace protean::apps
