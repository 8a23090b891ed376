#include "systems/over_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::detail {
namespace {

constexpr int most_devices = 16;

int number_of(std::string_view word, std::string_view words) {
  int number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0)
    throw BadArgument(fmt::format(
        "devices is '{}'; it must be all, the number of GPUs (1 to {}), such as 2, or numbers of GPUs, such as 0,2",
        words, most_devices));
  return number;
}

}  // namespace

std::vector<ContextPtr> contexts_of_devices(std::string_view words) {
  if (words == "none") return {};
  const int there = Context::device_count();
  std::vector<int> numbers;
  if (words.find(',') != std::string_view::npos) {
    for (const std::string_view word : split(words, ',')) {
      numbers.push_back(number_of(word, words));
      if (std::count(numbers.begin(), numbers.end(), numbers.back()) > 1)
        throw BadArgument(fmt::format("devices names GPU {} twice; name each once", numbers.back()));
    }
  } else {
    const int count = words == "all" ? std::clamp(there, 1, most_devices) : number_of(words, words);
    if (count < 1)
      throw BadArgument("devices is 0; it must be 1 or more, or none to solve where the matrix lies");
    for (int d = 0; d < std::min(count, most_devices + 1); ++d) numbers.push_back(d);
  }
  if (std::ssize(numbers) > most_devices)
    throw BadArgument(
        fmt::format("devices is '{}'; a system is distributed over at most {} GPUs", words, most_devices));
  std::vector<ContextPtr> contexts;
  for (const int number : numbers) {
    if (there > 0 && number >= there)
      throw NotAvailable(fmt::format("devices: there is no GPU {}; this machine has {}, numbers 0 to {}",
                                     number, there, there - 1));
    contexts.push_back(Context::device(number));
  }
  return contexts;
}

void require_devices_of_partition(const Distribution& distribution) {
  if (distribution.partition != "rows" || !distribution.part_of_row.empty())
    throw BadArgument(
        "a partition shares rows out among devices, and none are named; name devices, or leave the partition out");
}

template <class T>
void OverDevices<T>::set_up(SystemMatrix<T>& matrix, const SolveSettings& settings) {
  if (matrix.of_elements() || matrix.of_operator())
    throw BadArgument("a distribution over devices is for matrices in CSR; leave it out");
  if (matrix.context()->space() != Space::host)
    throw BadArgument(
        "the matrix lies on a GPU; a distribution over devices is for a matrix in host memory: make it there, or leave "
        "the distribution out");
  const auto lock = matrix.preparing();
  matrix.settle_named();
  const Revision now = matrix.A().revision();
  if (!system_ || serial_ != matrix.serial() || revision_.pattern != now.pattern) {
    SolveSettings own = settings;
    own.check_arrays = false, own.observer = nullptr;
    if (own.format == "auto" && matrix.format_named() && matrix.assembled()) {
      own.format = matrix.assembled()->entry().id, own.parameters = matrix.assembled()->params();
      own.kernel = matrix.assembled()->kernel();
    }
    if (matrix.order() != "none") own.order = matrix.order();
    if (own.distribution.contexts.size() == 1)
      own.context = own.distribution.contexts.front(), own.distribution = {};
    system_.reset();  // a device belongs to one system
    system_ = std::make_unique<LinearSystem<T>>(matrix.given(), std::move(own));
  } else if (revision_ != now) {
    system_->update_values(matrix.given());
  }
  serial_ = matrix.serial(), revision_ = now;
  system_->set_up();
}

template <class T>
SolveResult OverDevices<T>::solve(SystemMatrix<T>& matrix, const SolveSettings& settings,
                                  VectorView<const T> b, VectorView<T> x, SolveObserver* observer) {
  set_up(matrix, settings);
  const typename SystemMatrix<T>::Use use(matrix);
  const ContextPtr& device = system_->settings().context;
  if (!device) return system_->solve(b, x, observer);
  require<T>(b, matrix.given().rows(), Space::host, "b");
  require<T>(VectorView<const T>(x), matrix.given().rows(), Space::host, "x");
  if (b_.size() != b.size) b_ = Vector<T>(device, b.size), x_ = Vector<T>(device, b.size);
  copy<T>(*device, b, b_), copy<T>(*device, VectorView<const T>(x), x_);
  SolveResult result = system_->solve(b_, x_, observer);
  copy<T>(*device, x_, x);
  return result;
}

template class OverDevices<float>;
template class OverDevices<double>;

}  // namespace protean::detail
