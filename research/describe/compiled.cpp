#include "research/describe/compiled.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/words.hpp"
#ifdef PROTEAN_HAVE_CUDA
#include "core/device/copy.hpp"
#include "core/device/state.hpp"
#endif

extern char** environ;

namespace protean::research {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// The program and its first arguments: a variable may hold `ccache g++`.
std::vector<std::string> compiler(Target target) {
  if (const std::string named = environment(target == Target::host ? "CXX" : "NVCC"); !named.empty()) {
    std::vector<std::string> words;
    for (const std::string_view word : split(named, ' '))
      if (!word.empty()) words.emplace_back(word);
    if (!words.empty()) return words;
  }
  const std::string of_build = target == Target::host ? PROTEAN_CXX_COMPILER : PROTEAN_CUDA_COMPILER;
  if (!of_build.empty() && access(of_build.c_str(), X_OK) == 0) return {of_build};
  return {target == Target::host ? "c++" : "nvcc"};
}

std::string advice(Target target) {
  return target == Target::host
             ? "install g++ or clang++, or name one by the environment variable CXX"
             : "install the CUDA Toolkit, or name its nvcc by the environment variable NVCC";
}

// Runs a program without a shell; what it prints goes to `output`. Returns its exit code, 128 + n for signal n, or -1
// with errno if it cannot be started.
int run_program(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    errno = error;
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> command(Target target, const std::string& folder, const std::string& architecture) {
  const std::string to = folder + "/kernels.so";
  std::vector<std::string> words = compiler(target);
  const std::vector<std::string> host{
      "-std=c++20", "-O3", "-march=native",        "-ffp-contract=fast", "-fPIC", "-shared",
      "-o",         to,    folder + "/kernels.cpp"},
      cuda{"-std=c++17",
           "-O3",
           architecture.empty() ? "-arch=all-major" : "-arch=" + architecture,
           "-Xcompiler=-fPIC",
           "-shared",
           "-o",
           to,
           folder + "/kernels.cu"};
  const std::vector<std::string>& more = target == Target::host ? host : cuda;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

Library::Library(const std::string& source, Target target, const std::string& architecture) {
  std::string pattern = std::filesystem::temp_directory_path() / "protean-research-XXXXXX";
  if (!mkdtemp(pattern.data()))
    throw Error(
        fmt::format("no folder for generated code can be made as {}: {}", pattern, std::strerror(errno)));
  folder_ = pattern;
  try {
    {
      std::ofstream file(folder_ + (target == Target::host ? "/kernels.cpp" : "/kernels.cu"));
      file << source;
      if (!file.flush()) throw Error(fmt::format("generated code cannot be written into {}", folder_));
    }
    const std::vector<std::string> words = command(target, folder_, architecture);
    const std::string said = folder_ + "/said";
    const int code = run_program(words, said);
    if (code == -1 || code == 127)
      throw NotAvailable(fmt::format("the compiler {} cannot be started ({}): {}", words[0],
                                     code == -1 ? std::strerror(errno) : "exit code 127", advice(target)));
    if (code != 0)
      throw Error(fmt::format("{} does not compile the generated code (exit code {}): {:.2000}", words[0],
                              code, contents(said)));
    handle_ = dlopen((folder_ + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw Error(fmt::format("generated code cannot be loaded: {}", dlerror()));
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    throw;
  }
}

Library::~Library() {
  if (handle_) dlclose(handle_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void* Library::function(const std::string& name) const {
  void* const found = dlsym(handle_, name.c_str());
  if (!found) throw Error(fmt::format("generated code has no function {}", name));
  return found;
}

std::shared_ptr<const Library> shared_library(const std::string& source, Target target,
                                              const std::string& architecture) {
  static std::mutex lock;
  static std::map<std::pair<std::string, std::string>, std::weak_ptr<const Library>> in_use;
  const std::scoped_lock held(lock);
  std::erase_if(in_use, [](const auto& one) { return one.second.expired(); });
  auto& known = in_use[{source, architecture}];
  std::shared_ptr<const Library> library = known.lock();
  if (!library) known = library = std::make_shared<const Library>(source, target, architecture);
  return library;
}

std::string why_no_compiler(Target target) {
  std::string folder = std::filesystem::temp_directory_path() / "protean-research-XXXXXX";
  if (!mkdtemp(folder.data())) return std::strerror(errno);
  std::vector<std::string> words = compiler(target);
  words.emplace_back("--version");
  const int code = run_program(words, folder + "/said");
  const int error = errno;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (code == 0) return {};
  return fmt::format("{} cannot be started ({}): {}", words[0],
                     code == -1 ? std::strerror(error) : fmt::format("exit code {}", code), advice(target));
}

namespace {

template <class T, class From>
Buffer<T> moved_to(const ContextPtr& context, const std::vector<From>& from) {
  Buffer<T> buffer(context, static_cast<std::int64_t>(from.size()));
  if (from.empty()) return buffer;
  const std::vector<T> right(from.begin(), from.end());
  if constexpr (std::is_floating_point_v<T>) {
    copy<T>(*context, {right.data(), buffer.size()}, {buffer.data(), buffer.size()});
  } else if (context->space() == Space::host) {
    std::copy(right.begin(), right.end(), buffer.begin());
  } else {
#ifdef PROTEAN_HAVE_CUDA
    device::copy_in(*context, buffer.data(), right.data(), buffer.bytes());
#endif
  }
  return buffer;
}

template <class T>
using HostFunction = void (*)(const void* const*, const long long*, long long, long long, T, const T*, int, T,
                              T*);
template <class T>
using Launch = int (*)(const void* const*, const long long*, long long, T, const T*, int, T, T*, int, void*);

std::string architecture_of([[maybe_unused]] const Context& context) {
#ifdef PROTEAN_HAVE_CUDA
  int major = 0, minor = 0;
  const int ordinal = context.device_state().ordinal;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal) == cudaSuccess)
    return fmt::format("sm_{}{}", major, minor);
#endif
  return {};
}

}  // namespace

template <class T>
GeneratedMatrix<T>::GeneratedMatrix(const Description& description, const CsrMatrix<double>& matrix,
                                    const ContextPtr& context, const Strategy& strategy)
    : LinearOperator<T>(context, {matrix.rows(), matrix.cols()}),
      name_(description.name),
      description_(description) {
  nests_ = plan(description_);
  const bool on_host = context->space() == Space::host;
  const Target target = on_host ? Target::host : Target::cuda;
  source_ = generated_source(description_, nests_, strategy, target, sizeof(T) == 4);
  converted_ = convert(description_, nests_, matrix, strategy.turned);
  numbers_ = converted_.numbers;
  numbers_.resize(description_.variables.size() + 2 * description_.arrays.size());
  for (std::size_t a = 0; a < description_.arrays.size(); ++a) {
    for (std::size_t i = 0; i < converted_.extents[a].size() && i < 2; ++i)
      numbers_[extent_number(description_, a, i)] = converted_.extents[a][i];
    index_.push_back(moved_to<std::int32_t>(context, converted_.index[a]));
    values_.push_back(moved_to<T>(context, converted_.values[a]));
    arrays_.push_back(description_.arrays[a].kind == Array::Kind::values
                          ? static_cast<const void*>(values_.back().data())
                          : static_cast<const void*>(index_.back().data()));
  }
  library_ = shared_library(source_, target, on_host ? std::string() : architecture_of(*context));
  for (std::size_t i = 0; i < nests_.size(); ++i)
    functions_.push_back(library_->function(fmt::format("{}_{}", on_host ? "nest" : "launch", i)));
}

template <class T>
GeneratedMatrix<T>::~GeneratedMatrix() {
  // Kernels of the library may still run.
  this->context()->synchronize();
}

template <class T>
std::size_t GeneratedMatrix<T>::bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : index_) sum += one.bytes();
  for (const auto& one : values_) sum += one.bytes();
  return sum;
}

template <class T>
void GeneratedMatrix<T>::run(std::size_t nest, T alpha, const T* x, bool once, T beta, T* y) const {
  static_assert(sizeof(long long) == sizeof(std::int64_t));
  const auto* const numbers = reinterpret_cast<const long long*>(numbers_.data());
  const auto& ranges = converted_.ranges[nest];
  if (this->context()->space() == Space::host) {
    const auto function = reinterpret_cast<HostFunction<T>>(functions_[nest]);
    const auto [from, to] = ranges[0];
    parallel(useful_parts(*this->context(), converted_.numbers[nonzeros_v] + this->rows()), [&](int part,
                                                                                                int parts) {
      const Range range = even_range(std::max<std::int64_t>(0, to - from), part, parts);
      if (range.size() > 0)
        function(arrays_.data(), numbers, from + range.begin, from + range.end, alpha, x, once, beta, y);
    });
    return;
  }
#ifdef PROTEAN_HAVE_CUDA
  std::int64_t items = 1;
  for (const auto& [from, to] : ranges) items *= std::max<std::int64_t>(0, to - from);
  const DeviceState& state = this->context()->device_state();
  const int error = reinterpret_cast<Launch<T>>(functions_[nest])(arrays_.data(), numbers, items, alpha, x,
                                                                  once, beta, y, state.ordinal, state.stream);
  if (error != 0)
    throw DeviceError(fmt::format("a generated kernel of {} cannot be started: {}", name_,
                                  cudaGetErrorString(static_cast<cudaError_t>(error))));
#endif
}

template <class T>
void GeneratedMatrix<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (this->rows() == 0) return;
  const bool once = converted_.writes_each_row_once[0];
  if (!once) {
    if (beta == T(0))
      fill(*this->context(), T(0), y);
    else
      scale<T>(*this->context(), beta, y);
  }
  for (std::size_t i = 0; i < nests_.size(); ++i) run(i, alpha, x.data, once && i == 0, beta, y.data);
}

template class GeneratedMatrix<float>;
template class GeneratedMatrix<double>;

}  // namespace protean::research
