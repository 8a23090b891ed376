#include "support/fake_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "operators/values_word.hpp"
#include "support/split_link.hpp"

namespace protean::test {
namespace {

constexpr std::size_t page = 4096, alignment = 64;
// Other processors are emulated, and qemu-user keeps a record of each page that was ever reserved.
#ifdef __x86_64__
constexpr std::size_t reserve = std::size_t{64} << 30;
#else
constexpr std::size_t reserve = std::size_t{1} << 30;
#endif

void explain(const void*, const char*, char* text, std::size_t room) {
  constexpr std::string_view message =
      "fake device: device memory was touched outside the device's own work, or after it was freed, or past "
      "the end of a buffer\n";
  message.copy(text, room);
}

}  // namespace

FakeDevice::FakeDevice(const FakeDeviceOptions& options) : options_(options) {
  void* const memory = mmap(nullptr, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw OutOfMemory("no address space for a fake device", reserve);
  begin_ = static_cast<char*>(memory);
  message_.emplace(begin_, reserve, explain, this, [](void* device, const char* address) {
    return static_cast<FakeDevice*>(device)->allow(address);
  });
}

FakeDevice::~FakeDevice() { munmap(begin_, reserve); }

// The buffer lies at the end of its pages. The page after it, except the bytes that align it, is never accessible.
// Addresses are not used twice.
void* FakeDevice::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const std::size_t mapped = (rounded + page - 1) / page * page;
  if (mapped < bytes || mapped + 2 * page > reserve - used_)
    throw OutOfMemory("the fake device has no memory for a buffer of " + human_bytes(bytes), bytes);
  char* const first = begin_ + used_ + page;
  used_ += mapped + page;
  blocks_[first] = {mapped, bytes};
  held_ += bytes;
  return first + (mapped - rounded);
}

void FakeDevice::deallocate(void* data, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::prev(blocks_.upper_bound(static_cast<char*>(data)));
  if (found->second.bytes != bytes) std::abort();
  madvise(found->first, found->second.mapped, MADV_DONTNEED);
  mprotect(found->first, found->second.mapped, PROT_NONE);
  held_ -= bytes;
  blocks_.erase(found);
}

std::size_t FakeDevice::held() const noexcept {
  const std::lock_guard lock(mutex_);
  return held_;
}

bool FakeDevice::owns(const void* data) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto* const address = static_cast<const char*>(data);
  auto next = blocks_.upper_bound(const_cast<char*>(address));
  if (next == blocks_.begin()) return false;
  --next;
  return address < next->first + next->second.mapped;
}

void FakeDevice::open() noexcept {
  if (options_.at_work) options_.at_work();
  const std::lock_guard lock(mutex_);
  if (depth_++ == 0) ++works_;
}

void FakeDevice::close() noexcept {
  const std::lock_guard lock(mutex_);
  if (--depth_ > 0) return;
  for (auto& [first, block] : blocks_) {
    if (block.accessible && mprotect(first, block.mapped, PROT_NONE) != 0) std::abort();
    block.accessible = false;
  }
}

bool FakeDevice::allow(const char* address) noexcept {
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(const_cast<char*>(address));
  if (depth_ == 0 || next == blocks_.begin()) return false;
  auto& [first, block] = *--next;
  if (address >= first + block.mapped) return false;
  // Another thread may have opened it since.
  if (!block.accessible && mprotect(first, block.mapped, PROT_READ | PROT_WRITE) != 0) std::abort();
  return block.accessible = true;
}

ContextPtr fake_device_context(const FakeDeviceOptions& options) {
  return detail::simulated_context(std::make_shared<FakeDevice>(options));
}

namespace {

SparsityPattern tagged(SparsityPattern pattern, Space space) {
  pattern.space = space;
  return pattern;
}
template <class T>
CsrMatrix<T> tagged(CsrMatrix<T> matrix, Space space) {
  matrix.pattern.space = space;
  return matrix;
}

// The context of work inside the device: its memory, seen as host memory.
struct Inside {
  explicit Inside(const Context& context) : work(context), context_(inner(context)) {}
  static ContextPtr inner(const Context& context) {
    return detail::simulated_context(static_cast<FakeDevice*>(context.simulated())->shared_from_this(),
                                     Space::host);
  }
  detail::DeviceWork work;
  ContextPtr context_;
};

// A matrix of the host in the device's memory.
template <class T>
class FakeMatrix final : public AssembledMatrix<T>, public HasApplyDot<T>, public HasMultiProduct<T> {
 public:
  explicit FakeMatrix(const BuildRequest<T>& request) : AssembledMatrix<T>(request) {
    const Inside inside(*request.context);
    const FormatEntry& format = find_format(request.entry.id);
    inner_ = make_matrix(format, tagged(request.csr, Space::host), inside.context_,
                         detail::as_admitted_in<T>(format, {}, Space::host, request.asked));
  }
  CsrMatrix<T> to_csr() const override {
    const detail::DeviceWork work(*this->context());
    return tagged(inner_->to_csr(), Space::device);
  }
  std::size_t bytes() const noexcept override { return inner_->bytes(); }
  Recording recording() const noexcept override {
    Recording recording = AssembledMatrix<T>::recording();
    recording.heeds_stop = static_cast<const FakeDevice*>(this->context()->simulated())->products_heed_stop();
    return recording;
  }
  void diagonal(VectorView<T> d) const override {
    require<T>(d, std::min(this->rows(), this->cols()), Space::device, "diagonal");
    const detail::DeviceWork work(*this->context(), {d.data});
    inner_->diagonal({d.data, d.size});
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    const detail::DeviceWork work(*this->context(), {x.data, y.data, result});
    if (is_left_out(work)) return;
    apply_dot<T>(*inner_, {x.data, x.size}, {y.data, y.size}, result);
  }
  std::string_view no_multi_product() const noexcept override {
    const auto* const multi = dynamic_cast<const HasMultiProduct<T>*>(inner_.get());
    return multi ? multi->no_multi_product() : "the simulated kernel has no such product";
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    const detail::DeviceWork work(*this->context(), {X.data, Y.data});
    if (is_left_out(work)) return;
    dynamic_cast<const HasMultiProduct<T>&>(*inner_).do_multi_apply(
        alpha, {X.data, X.rows, X.columns, X.stride, X.layout}, beta,
        {Y.data, Y.rows, Y.columns, Y.stride, Y.layout});
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const detail::DeviceWork work(*this->context(), {x.data, y.data});
    if (is_left_out(work)) return;
    inner_->apply(alpha, {x.data, x.size}, beta, {y.data, y.size});
  }
  void do_update_values(const CsrMatrix<T>& csr) override {
    const detail::DeviceWork work(*this->context());
    inner_->update_values(tagged(csr, Space::host), SamePattern());
  }

 private:
  bool is_left_out(const detail::DeviceWork& work) const { return work.ended() && recording().heeds_stop; }
  std::unique_ptr<AssembledMatrix<T>> inner_;
};

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_fake(const BuildRequest<T>& request) {
  return std::make_unique<FakeMatrix<T>>(request);
}

constexpr Kernel kernels[] = {{"native", false, true, {}, make_fake<double>, make_fake<float>}};
constexpr std::size_t formats =
#define PROTEAN_FORMAT(family, name, engine) +1
#define PROTEAN_PRESET(family, name) +1
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
#undef PROTEAN_PRESET
    ;

template <std::size_t I>
Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const Inside inside(context);
  Admission found =
      catalogue()[I]->admit(*inside.context_, tagged(pattern, Space::host), params, value_bytes);
  found.plan.reset();  // the format's own maker asks again
  return found;
}

template <std::size_t... I>
constexpr std::array<DeviceCode, sizeof...(I)> codes(std::index_sequence<I...>) {
  return {DeviceCode{kernels, admit<I>, true}...};
}
constexpr auto device_codes = codes(std::make_index_sequence<formats>());

// Format split is no format of the host inside the device: its own code runs between the two.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_fake_split(const BuildRequest<T>& request) {
  return protean::formats::make_split<T>(split_on_fake_device(), request);
}
Admission admit_fake_split(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes) {
  return protean::formats::admit_split(split_on_fake_device(), context, pattern, params, value_bytes);
}
constexpr Kernel split_kernels[] = {{.name = "native",
                                     .device = true,
                                     .make_f64 = make_fake_split<double>,
                                     .make_f32 = make_fake_split<float>,
                                     .deterministic = false}};
constexpr DeviceCode split_code{split_kernels, admit_fake_split, true};

}  // namespace

const FormatEntry& fake_format(std::string_view id) {
  static const std::vector<FormatEntry> entries = [] {
    std::vector<FormatEntry> made;
    for (const FormatEntry* entry : catalogue()) {
      made.push_back(*entry);
      made.back().device = entry->id == "split" ? &split_code : &device_codes.at(made.size() - 1);
    }
    return made;
  }();
  for (const FormatEntry& entry : entries)
    if (entry.id == id) return entry;
  throw BadArgument("there is no format " + std::string(id));
}

const FormatEntry& FakeDevice::format(std::string_view id) const { return fake_format(id); }

FormatParams most_tolerant(const FormatEntry& format) {
  FormatParams params;
  for (const ParamDoc& doc : format.params)
    if (doc.name.starts_with("max_fill")) params.set(std::string(doc.name), doc.largest);
  return params;
}

}  // namespace protean::test
