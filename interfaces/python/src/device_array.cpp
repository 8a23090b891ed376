#include "device_array.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/blas1.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/streams.hpp"
#include "core/device_checks.hpp"
#endif

namespace protean::python {
namespace {

// What needs CUDA; without it no Gpu exists, so that the others are not called.
#if defined(PROTEAN_HAVE_CUDA)
int place_of(const void* data, const std::string& what) { return device::ordinal_of(data, what); }
void wait_for(const Gpu& gpu, std::uintptr_t stream, const std::string& what) {
  device::wait_for(*gpu.context(), stream, what);
}
void let_wait(const Gpu& gpu, std::uintptr_t stream, const std::string& what) {
  device::let_wait(*gpu.context(), stream, what);
}
void finish_all(const Gpu& gpu) { device::finish_all(*gpu.context()); }
std::uintptr_t stream_number(const Gpu& gpu) {
  return reinterpret_cast<std::uintptr_t>(detail::stream_of(*gpu.context()));
}
#else
[[noreturn]] void refuse() {
  throw NotAvailable("this build of the package has no GPU code; build it with PROTEAN_CUDA=ON");
}
int place_of(const void*, const std::string&) { refuse(); }
void wait_for(const Gpu&, std::uintptr_t, const std::string&) {}
void let_wait(const Gpu&, std::uintptr_t, const std::string&) {}
void finish_all(const Gpu&) {}
std::uintptr_t stream_number(const Gpu&) { return 0; }
#endif

// https://dmlc.github.io/dlpack/latest/c_api.html
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* manager = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};
constexpr const char* fresh = "dltensor";
constexpr const char* used = "used_dltensor";
constexpr int dl_cuda = 2;

Entry entry_called(const std::string& what, const std::string& entries) {
  for (const Entry one : {Entry::float32, Entry::float64, Entry::int32, Entry::int64})
    if (entries == to_string(one)) return one;
  throw BadArgument(what + " has entries of type " + entries +
                    "; values are float32 or float64, and indices int32 or int64");
}

std::string called(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  const char* const kind = code == nb::dlpack::dtype_code::Float     ? "float"
                           : code == nb::dlpack::dtype_code::Int     ? "int"
                           : code == nb::dlpack::dtype_code::UInt    ? "uint"
                           : code == nb::dlpack::dtype_code::Complex ? "complex"
                                                                     : "another kind, of bits ";
  return kind + std::to_string(type.bits);
}

std::string in_words(const DeviceArray::Sizes& sizes) {
  std::string words = "(";
  for (const std::int64_t one : sizes) words += (words.size() > 1 ? ", " : "") + std::to_string(one);
  return words + (sizes.size() == 1 ? ",)" : ")");
}

DeviceArray::Sizes dense_strides(const DeviceArray::Sizes& shape, bool by_columns) {
  if (shape.size() < 2) return DeviceArray::Sizes(shape.size(), 1);
  const std::int64_t rows = std::max<std::int64_t>(shape[0], 1),
                     columns = std::max<std::int64_t>(shape[1], 1);
  return by_columns ? DeviceArray::Sizes{1, rows} : DeviceArray::Sizes{columns, 1};
}

}  // namespace

const char* to_string(Entry entry) noexcept {
  switch (entry) {
    case Entry::float32:
      return "float32";
    case Entry::float64:
      return "float64";
    case Entry::int32:
      return "int32";
    default:
      return "int64";
  }
}

const std::shared_ptr<Gpu>& Gpu::get(int ordinal) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, std::shared_ptr<Gpu>>;  // never destroyed: see context_of()
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Gpu>& gpu = all[ordinal];
  if (!gpu) gpu.reset(new Gpu(ordinal));
  return gpu;
}

void Gpu::let_go(std::shared_ptr<void> object) {
  {
    const std::lock_guard lock(left_mutex_);
    left_.push_back(std::move(object));
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) clear();
}

void Gpu::clear() {
  std::vector<std::shared_ptr<void>> left;
  {
    const std::lock_guard lock(left_mutex_);
    left.swap(left_);
  }
  if (left.empty()) return;
  try {
    context_->synchronize();
  } catch (const Error&) {}  // work failed, so it is over, too
}

DeviceArray::DeviceArray(const std::string& what, std::uintptr_t data, Sizes shape, Sizes strides,
                         const std::string& entries, int ordinal, std::optional<std::uintptr_t> stream,
                         nb::object kept)
    : what_(what),
      data_(reinterpret_cast<void*>(data)),
      entry_(entry_called(what, entries)),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      ordinal_(ordinal),
      stream_(stream),
      kept_(std::make_shared<Kept>(std::move(kept))) {
  check_layout();
  if (ordinal_ < 0) ordinal_ = data_ ? place_of(data_, what_) : 0;
}

void DeviceArray::check_layout() {
  if (shape_.empty() || shape_.size() > 2)
    throw ShapeMismatch(what_ + " has " + std::to_string(shape_.size()) + " dimensions; it must have 1 or 2");
  if (strides_.empty()) strides_ = dense_strides(shape_, false);
  if (strides_.size() != shape_.size())
    throw BadArgument(what_ + " has shape " + in_words(shape_) + " and strides " + in_words(strides_));
  if (size() > 0 && !data_) throw BadArgument(what_ + " has entries, but its address is 0");
}

std::shared_ptr<DeviceArray> DeviceArray::of_dlpack(const std::string& what, nb::object object) {
  const nb::tuple place = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
  const int type = nb::cast<int>(nb::int_(place[0])), ordinal = nb::cast<int>(nb::int_(place[1]));
  if (type != dl_cuda)
    throw BadArgument(what + " lies on a device of type " + std::to_string(type) +
                      " of DLPack; it must be the memory of a GPU of CUDA (type 2)");
  const std::shared_ptr<Gpu> gpu = Gpu::get(ordinal);
  // It has our stream wait, on which another thread may be recording a graph.
  std::unique_lock lock(gpu->mutex(), std::try_to_lock);
  if (!lock.owns_lock()) {
    const WithoutGil no_gil;
    lock.lock();
  }
  const nb::object capsule = object.attr("__dlpack__")(nb::arg("stream") = stream_number(*gpu));
  lock.unlock();
  auto* const managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), fresh));
  if (!managed) throw nb::python_error();
  if (PyCapsule_SetName(capsule.ptr(), used) != 0) throw nb::python_error();
  const std::shared_ptr<void> kept(managed, [](void* tensor) {
    if (!Py_IsInitialized()) return;
    const WithGil gil;
    auto* const one = static_cast<ManagedTensor*>(tensor);
    if (one->deleter) one->deleter(one);
  });
  const nb::dlpack::dltensor& tensor = managed->tensor;
  const std::shared_ptr<DeviceArray> array(new DeviceArray);
  array->what_ = what;
  array->kept_ = kept;
  array->ordinal_ = tensor.device.device_id;
  array->entry_ = entry_called(what, called(tensor.dtype));
  if (tensor.dtype.lanes != 1) throw BadArgument(what + " has vectors as entries; it must have numbers");
  array->shape_.assign(tensor.shape, tensor.shape + tensor.ndim);
  if (tensor.strides) array->strides_.assign(tensor.strides, tensor.strides + tensor.ndim);
  array->data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
  array->check_layout();
  return array;
}

std::shared_ptr<DeviceArray> DeviceArray::make(int ordinal, Sizes shape, Entry entry, bool by_columns) {
  const std::shared_ptr<DeviceArray> array(new DeviceArray);
  array->what_ = "the array";
  array->gpu_ = Gpu::get(ordinal);
  array->ordinal_ = ordinal, array->entry_ = entry;
  array->shape_ = std::move(shape), array->strides_ = dense_strides(array->shape_, by_columns);
  const auto bytes = static_cast<std::int64_t>(array->entry_bytes()) * array->size();
  const WithoutGil no_gil;
  const std::lock_guard lock(array->gpu_->mutex());
  array->buffer_ = Buffer<unsigned char>(array->gpu_->context(), bytes);
  array->data_ = array->buffer_.data();
  array->check_layout();
  return array;
}

DeviceArray::~DeviceArray() {
  if (!handed_out_ || !gpu_ || buffer_.empty()) return;
  try {
    finish_all(*gpu_);  // others may still use it, on streams of theirs
  } catch (const Error&) {}
}

std::int64_t DeviceArray::size() const {
  std::int64_t size = 1;
  for (const std::int64_t one : shape_) size *= one;
  return size;
}

bool DeviceArray::dense() const {
  if (size() <= 1) return true;
  if (shape_.size() == 1) return strides_[0] == 1;
  const auto is = [&](bool by_columns) {
    const Sizes wanted = dense_strides(shape_, by_columns);
    return (shape_[0] == 1 || strides_[0] == wanted[0]) && (shape_[1] == 1 || strides_[1] == wanted[1]);
  };
  return is(false) || is(true);
}

void DeviceArray::download(void* to) const {
  const std::shared_ptr<Gpu> gpu = Gpu::get(ordinal_);
  const WithoutGil no_gil;
  const std::lock_guard lock(gpu->mutex());
  Joined joined(*gpu, {this});
  detail::copy_bytes(*gpu->context(), to, Space::host, data_, Space::device,
                     static_cast<std::size_t>(size()) * entry_bytes());
  gpu->context()->synchronize();
  joined.done();
}

void DeviceArray::upload(const void* from) {
  const std::shared_ptr<Gpu> gpu = Gpu::get(ordinal_);
  const WithoutGil no_gil;
  const std::lock_guard lock(gpu->mutex());
  detail::copy_bytes(*gpu->context(), data_, Space::device, from, Space::host,
                     static_cast<std::size_t>(size()) * entry_bytes());
  gpu->context()->synchronize();
}

void copy_on_device(const DeviceArray& from, const DeviceArray& to) {
  const std::shared_ptr<Gpu> gpu = Gpu::get(to.ordinal());
  require_on(from, *gpu);
  if (from.entry() != to.entry())
    throw BadArgument(from.what() + " has entries of type " + to_string(from.entry()) + "; they must be " +
                      to_string(to.entry()));
  const bool alike = from.shape().size() == 1 || to.shape().size() == 1 || from.shape()[1] == 1 ||
                     from.strides() == to.strides();
  if (from.size() != to.size() || !from.dense() || !to.dense() || !alike)
    throw BadArgument(from.what() + " has shape " + in_words(from.shape()) + " and strides " +
                      in_words(from.strides()) + " (in entries); they must be " + in_words(to.shape()) +
                      " and " + in_words(to.strides()));
  const WithoutGil no_gil;
  const std::lock_guard lock(gpu->mutex());
  Joined joined(*gpu, {&from, &to});
  detail::copy_bytes(*gpu->context(), to.data(), Space::device, from.data(), Space::device,
                     static_cast<std::size_t>(to.size()) * to.entry_bytes());
  joined.done();
}

void DeviceArray::fill_zero() {
  const std::shared_ptr<Gpu> gpu = Gpu::get(ordinal_);
  const WithoutGil no_gil;
  const std::lock_guard lock(gpu->mutex());
  if (entry_ == Entry::float64)
    fill(*gpu->context(), 0.0, VectorView<double>{static_cast<double*>(data_), size(), Space::device});
  else
    fill(*gpu->context(), 0.0F, VectorView<float>{static_cast<float*>(data_), size(), Space::device});
}

nb::object DeviceArray::dlpack(const std::shared_ptr<DeviceArray>& array) {
  struct Export {
    ManagedTensor managed;
    Sizes shape, strides;
    std::shared_ptr<DeviceArray> array;
  };
  auto owner = std::make_unique<Export>();
  owner->shape = array->shape(), owner->strides = array->strides(), owner->array = array;
  nb::dlpack::dltensor& tensor = owner->managed.tensor;
  tensor.data = array->data();
  tensor.device = {dl_cuda, array->ordinal()};
  tensor.ndim = static_cast<std::int32_t>(owner->shape.size());
  const bool real = array->entry() == Entry::float32 || array->entry() == Entry::float64;
  tensor.dtype = {
      static_cast<std::uint8_t>(real ? nb::dlpack::dtype_code::Float : nb::dlpack::dtype_code::Int),
      static_cast<std::uint8_t>(8 * array->entry_bytes()), 1};
  tensor.shape = owner->shape.data(), tensor.strides = owner->strides.data();
  owner->managed.manager = owner.get();
  owner->managed.deleter = [](ManagedTensor* managed) { delete static_cast<Export*>(managed->manager); };
  PyObject* const capsule = PyCapsule_New(&owner->managed, fresh, [](PyObject* self) {
    if (PyCapsule_IsValid(self, fresh) == 0) return;  // a consumer has it
    auto* const managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(self, fresh));
    managed->deleter(managed);
  });
  if (!capsule) throw nb::python_error();
  (void)owner.release();
  array->handed_out();
  return nb::steal(capsule);
}

void require_on(const DeviceArray& array, const Gpu& gpu) {
  if (array.ordinal() != gpu.ordinal() && array.data())
    throw BadArgument(array.what() + " lies on GPU " + std::to_string(array.ordinal()) +
                      ", the matrix on GPU " + std::to_string(gpu.ordinal()) +
                      "; copy it to the GPU of the matrix");
}

namespace {

template <class T>
void require_entries(const DeviceArray& array, const Gpu& gpu) {
  require_on(array, gpu);
  const Entry wanted = entry_of<std::remove_const_t<T>>;
  if (array.entry() != wanted)
    throw BadArgument(array.what() + " has entries of type " + to_string(array.entry()) +
                      ", the matrix has entries of type " + to_string(wanted) +
                      "; convert it (on a GPU nothing is converted silently)");
}

}  // namespace

template <class T>
VectorView<T> vector_of(const DeviceArray& array, const Gpu& gpu) {
  require_entries<T>(array, gpu);
  const auto& shape = array.shape();
  if (shape.size() == 2 && shape[1] != 1)
    throw ShapeMismatch(array.what() + " has shape " + in_words(shape) + "; it must be a vector");
  if (shape[0] > 1 && array.strides()[0] != 1)
    throw BadArgument(array.what() + " has strides " + in_words(array.strides()) +
                      " (in entries); its entries must lie side by side: make a contiguous copy");
  return {static_cast<T*>(array.data()), shape[0], Space::device};
}

template <class T>
MultiVectorView<T> columns_of(const DeviceArray& array, const Gpu& gpu) {
  require_entries<T>(array, gpu);
  const auto& shape = array.shape();
  if (shape.size() != 2)
    throw ShapeMismatch(array.what() + " has shape " + in_words(shape) + "; it must have two dimensions");
  auto* const data = static_cast<T*>(array.data());
  const std::int64_t down = array.strides()[0], across = array.strides()[1];
  if ((down == 1 || shape[0] <= 1) && (across >= shape[0] || shape[1] <= 1))
    return {data, shape[0], shape[1], std::max(across, shape[0]), VectorLayout::columns, Space::device};
  if ((across == 1 || shape[1] <= 1) && down >= shape[1])
    return {data, shape[0], shape[1], down, VectorLayout::interleaved, Space::device};
  throw BadArgument(
      array.what() + " has strides " + in_words(array.strides()) +
      " (in entries); the entries of its rows, or of its columns, must lie side by side: make a "
      "contiguous copy");
}

template VectorView<float> vector_of<float>(const DeviceArray&, const Gpu&);
template VectorView<double> vector_of<double>(const DeviceArray&, const Gpu&);
template VectorView<const float> vector_of<const float>(const DeviceArray&, const Gpu&);
template VectorView<const double> vector_of<const double>(const DeviceArray&, const Gpu&);
template MultiVectorView<float> columns_of<float>(const DeviceArray&, const Gpu&);
template MultiVectorView<double> columns_of<double>(const DeviceArray&, const Gpu&);
template MultiVectorView<const float> columns_of<const float>(const DeviceArray&, const Gpu&);
template MultiVectorView<const double> columns_of<const double>(const DeviceArray&, const Gpu&);

Joined::Joined(Gpu& gpu, std::initializer_list<const DeviceArray*> arrays) : gpu_(gpu), arrays_(arrays) {
  resume();
}

Joined::~Joined() {
  if (done_) return;
  try {
    gpu_.context()->synchronize();
  } catch (const Error&) {}
}

void Joined::resume() {
  for (const DeviceArray* const array : arrays_)
    if (array->stream()) wait_for(gpu_, *array->stream(), array->what());
}

void Joined::pause() { gpu_.context()->synchronize(); }

void Joined::done() {
  bool known = true;
  for (const DeviceArray* const array : arrays_)
    if (array->stream())
      let_wait(gpu_, *array->stream(), array->what());
    else
      known = false;
  if (!known) gpu_.context()->synchronize();
  done_ = true;
  gpu_.clear();
}

namespace {

DeviceArray::Sizes sizes_of(nb::handle sizes) {
  DeviceArray::Sizes result;
  for (const nb::handle one : nb::borrow<nb::sequence>(sizes))
    result.push_back(nb::cast<std::int64_t>(nb::int_(one)));
  return result;
}

nb::tuple tuple_of(const DeviceArray::Sizes& sizes, std::int64_t factor = 1) {
  nb::list result;
  for (const std::int64_t one : sizes) result.append(one * factor);
  return nb::tuple(result);
}

}  // namespace

void bind_device_arrays(nb::module_& m) {
  using A = DeviceArray;
  nb::class_<A>(m, "DeviceArray")
      .def_static(
          "view",
          [](const std::string& what, std::uintptr_t data, nb::handle shape, nb::handle strides,
             const std::string& entries, int ordinal, std::optional<std::uintptr_t> stream, nb::object kept) {
            return std::make_shared<A>(what, data, sizes_of(shape),
                                       strides.is_none() ? A::Sizes{} : sizes_of(strides), entries, ordinal,
                                       stream, std::move(kept));
          },
          nb::arg("what"), nb::arg("data"), nb::arg("shape"), nb::arg("strides").none(), nb::arg("entries"),
          nb::arg("ordinal"), nb::arg("stream").none(), nb::arg("kept"))
      .def_static("of_dlpack", &A::of_dlpack, nb::arg("what"), nb::arg("object"))
      .def_static(
          "make",
          [](int ordinal, nb::handle shape, const std::string& entries, bool by_columns) {
            return A::make(ordinal, sizes_of(shape), entry_called("the array", entries), by_columns);
          },
          nb::arg("ordinal"), nb::arg("shape"), nb::arg("entries"), nb::arg("by_columns"))
      // array: of the host, of the same type, shape and order of memory; Python looks to that.
      .def(
          "upload",
          [](A& a, std::uintptr_t from) {
            if (!a.dense()) throw BadArgument("only entries that lie side by side can be copied");
            a.upload(reinterpret_cast<const void*>(from));
          },
          nb::arg("address"))
      .def(
          "download",
          [](const A& a, std::uintptr_t to) {
            if (!a.dense()) throw BadArgument("only entries that lie side by side can be copied");
            a.download(reinterpret_cast<void*>(to));
          },
          nb::arg("address"))
      .def("fill_zero", &A::fill_zero)
      .def("dlpack", [](std::shared_ptr<A> a) { return A::dlpack(a); })
      .def("handed_out", &A::handed_out)
      .def_prop_ro("pointer", [](const A& a) { return reinterpret_cast<std::uintptr_t>(a.data()); })
      .def_prop_ro("shape", [](const A& a) { return tuple_of(a.shape()); })
      .def_prop_ro(
          "strides",
          [](const A& a) { return tuple_of(a.strides(), static_cast<std::int64_t>(a.entry_bytes())); })
      .def_prop_ro("entries", [](const A& a) { return to_string(a.entry()); })
      .def_prop_ro("stream", [](const A& a) { return a.stream(); })
      .def_prop_ro("ordinal", [](const A& a) { return a.ordinal(); });
  m.def("copy_on_device", copy_on_device, nb::arg("from_"), nb::arg("to"));
  m.def("device_count", &Context::device_count);
#if defined(PROTEAN_HAVE_CUDA)
  m.attr("has_gpu_code") = true;
#else
  m.attr("has_gpu_code") = false;
  m.attr("cuda_major") = 0;
  m.def(
      "search_nvidia_libraries", [](nb::object) {}, nb::arg("folders"));
  m.def("nvidia_libraries", []() -> std::vector<std::string> { refuse(); });
#endif
}

}  // namespace protean::python
