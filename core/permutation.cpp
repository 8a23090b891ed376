#include "core/permutation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/bisect.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "core/watch.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/permute.hpp"
#endif

namespace protean {
namespace {

// to[i] := from[index[i]], all in the memory of the context. Heeds the stop of a recorded graph on a device.
template <class T, class Index>
void gather(const Context& context, const T* from, const Index* index, std::int64_t size, T* to) {
  const detail::DeviceWork device_work(context, {from, index, to});
  const detail::DeviceScope device_scope(context);
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device::gather(context, from, index, size, to);
#endif
  if (device_work.ended()) return;
  parallel(useful_parts(context, size), [&](int part, int parts) {
    const Range mine = even_range(size, part, parts, 64);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) to[i] = from[index[i]];
  });
}

// to(i, j) := from(index[i], j) for all columns j, in the same way.
template <class T>
void gather_rows(const Context& context, const MultiVectorView<const T>& from, const std::int32_t* index,
                 const MultiVectorView<T>& to) {
  const detail::DeviceWork device_work(context, {from.data, index, to.data});
  const detail::DeviceScope device_scope(context);
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device::gather_rows(context, from, index, to);
#endif
  if (device_work.ended()) return;
  const std::int64_t columns = from.columns, from_row = from.row_step(), from_column = from.column_step(),
                     to_row = to.row_step(), to_column = to.column_step();
  parallel(useful_parts(context, from.rows * columns), [&](int part, int parts) {
    const Range mine = even_range(from.rows, part, parts, 64);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      const T* const source = from.data + index[i] * from_row;
      T* const target = to.data + i * to_row;
      for (std::int64_t j = 0; j < columns; ++j) target[j * to_column] = source[j * from_column];
    }
  });
}

template <class T>
void require_vector(const Context& context, VectorView<T> vector, std::int64_t size) {
  if (vector.size != size)
    throw ShapeMismatch(fmt::format("a vector has {} entries; the permutation is of {}", vector.size, size));
  if (size > 0 && vector.space != context.space())
    throw WrongSpace(fmt::format("a vector lies in {} memory; the permutation works on {} memory",
                                 to_string(vector.space), to_string(context.space())));
}

// A copy of an array of the host in the memory of the context.
template <class Item>
Buffer<Item> copied(const ContextPtr& context, const Item* items, std::int64_t size) {
  Buffer<Item> result(context, size);
  detail::copy_bytes(*context, result.data(), context->space(), items, Space::host, result.bytes());
  return result;
}

// Sorts a row of keys. Most rows are short.
void sort_keys(std::uint64_t* keys, std::int64_t count) {
  if (count > 48) return std::sort(keys, keys + count);
  for (std::int64_t i = 1; i < count; ++i) {
    const std::uint64_t key = keys[i];
    std::int64_t k = i;
    for (; k > 0 && keys[k - 1] > key; --k) keys[k] = keys[k - 1];
    keys[k] = key;
  }
}

}  // namespace

Permutation::Permutation(ContextPtr context, std::vector<std::int32_t> order) {
  const auto state = std::make_shared<State>();
  const auto n = static_cast<std::int32_t>(order.size());
  state->context = std::move(context);
  state->size = n;
  std::vector<std::int32_t>& place = state->host.place;
  place.assign(order.size(), -1);
  for (std::int32_t k = 0; k < n; ++k) {
    const std::int32_t row = order[k];
    if (row < 0 || row >= n || place[row] >= 0)
      throw BadArgument(
          fmt::format("an order of {} rows names row {} at place {}; each of 0 to {} must be in it once", n,
                      row, k, n - 1));
    place[row] = k;
  }
  state->host.order = std::move(order);
  if (state->context->space() == Space::device) {
    state->order_there = copied(state->context, state->host.order.data(), n);
    state->place_there = copied(state->context, place.data(), n);
  }
  state_ = state;
}

Permutation::Permutation(ContextPtr context, Buffer<std::int32_t> order, Buffer<std::int32_t> place) {
  if (context->space() != Space::device)
    throw WrongSpace("a permutation of arrays of a device needs the context of that device");
  if (order.size() != place.size())
    throw ShapeMismatch(
        fmt::format("an order has {} rows and the places of its rows are {}; both must be as many",
                    order.size(), place.size()));
  const auto state = std::make_shared<State>();
  state->context = std::move(context);
  state->size = order.size();
  state->order_there = std::move(order), state->place_there = std::move(place);
  state_ = state;
}

auto Permutation::State::here() const -> const Arrays& {
  std::call_once(copied, [this] {
    if (static_cast<std::int64_t>(host.order.size()) == size) return;
    const auto rows = static_cast<std::size_t>(size);
    Arrays arrays{std::vector<std::int32_t>(rows), std::vector<std::int32_t>(rows)};
    detail::copy_bytes(*context, arrays.order.data(), Space::host, order_there.data(), Space::device,
                       rows * 4);
    detail::copy_bytes(*context, arrays.place.data(), Space::host, place_there.data(), Space::device,
                       rows * 4);
    host = std::move(arrays);
  });
  return host;
}

Permutation Permutation::inverse() const {
  return state_ ? Permutation(state_->context, state_->here().place) : Permutation();
}

Permutation Permutation::after(const Permutation& first) const {
  if (first.size() != size())
    throw ShapeMismatch(
        fmt::format("a permutation of {} rows cannot follow one of {}", size(), first.size()));
  if (!state_) return {};
  const std::span<const std::int32_t> mine = this->order(), before = first.order();
  std::vector<std::int32_t> order(mine.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = before[mine[k]];
  return {state_->context, std::move(order)};
}

template <class T>
void Permutation::apply(VectorView<const T> from, VectorView<T> to) const {
  if (size() == 0 && from.size == 0 && to.size == 0) return;
  require_vector(*state_->context, from, size()), require_vector(*state_->context, to, size());
  const bool there = state_->context->space() == Space::device;
  gather(*state_->context, from.data, there ? state_->order_there.data() : state_->host.order.data(), size(),
         to.data);
}

template <class T>
void Permutation::apply_inverse(VectorView<const T> from, VectorView<T> to) const {
  if (size() == 0 && from.size == 0 && to.size == 0) return;
  require_vector(*state_->context, from, size()), require_vector(*state_->context, to, size());
  const bool there = state_->context->space() == Space::device;
  gather(*state_->context, from.data, there ? state_->place_there.data() : state_->host.place.data(), size(),
         to.data);
}

// Vectors that lie side by side are permuted one after another: their reads stay in the memory of one.
template <class T>
void Permutation::move(const MultiVectorView<const T>& from, const MultiVectorView<T>& to,
                       bool inverse) const {
  if (size() == 0 && from.rows == 0 && to.rows == 0) return;
  const Context& context = *state_->context;
  require<T>(from, size(), from.columns, context.space(), "what is permuted");
  require<T>(to, size(), from.columns, context.space(), "the result of a permutation");
  if (from.columns == 0) return;
  if (from.has_vectors() && to.has_vectors()) {
    for (std::int64_t j = 0; j < from.columns; ++j)
      inverse ? apply_inverse<T>(from.column(j), to.column(j)) : apply<T>(from.column(j), to.column(j));
    return;
  }
  const bool there = context.space() == Space::device;
  const std::int32_t* const index = inverse ? (there ? place_there() : state_->host.place.data())
                                            : (there ? order_there() : state_->host.order.data());
  gather_rows(context, from, index, to);
}

template <class T>
void Permutation::multi_apply(MultiVectorView<const T> from, MultiVectorView<T> to) const {
  move(from, to, false);
}

template <class T>
void Permutation::multi_apply_inverse(MultiVectorView<const T> from, MultiVectorView<T> to) const {
  move(from, to, true);
}

template <class T>
PermutedMatrix<T>::PermutedMatrix(const ContextPtr& host, const CsrMatrix<T>& matrix, Permutation permutation)
    : permutation_(std::move(permutation)) {
  check_arrays(matrix);
  const SparsityPattern& p = matrix.pattern;
  const std::int64_t n = p.rows;
  if (n != p.cols || n != permutation_.size())
    throw ShapeMismatch(fmt::format("the matrix is {} x {} and the permutation is of {} rows", n, p.cols,
                                    permutation_.size()));
  if (host->space() != Space::host) throw WrongSpace("the first context of a permuted matrix is of a device");
  const ContextPtr& target = permutation_.context();
  if (p.space == Space::device && target->space() == Space::host)
    throw WrongSpace("the matrix lies in device memory; its permutation is of the host");
  pattern_ = PatternMark(p.space == Space::host ? *host : *target, p);
  if (p.space == Space::host)
    make_on_host(host, matrix);
  else if (target->simulated())
    make_on_host(host, download(host, *target, matrix));
#if defined(PROTEAN_HAVE_CUDA)
  else
    make_on_device(matrix);
#endif
}

#if defined(PROTEAN_HAVE_CUDA)
template <class T>
void PermutedMatrix<T>::make_on_device(const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  const ContextPtr& context = permutation_.context();
  const detail::DeviceScope device_scope(*context);
  CsrBuilder<T> builder(context, p.rows, p.cols, p.nonzeros, p.row_ptr.p32 == nullptr);
  const auto permute = [&](auto* row_ptr, auto& entry) {
    device::permute(*context, matrix, permutation_.order_there(), permutation_.place_there(), row_ptr,
                    builder.col(), builder.values(), entry.data());
  };
  if (p.nonzeros > std::numeric_limits<std::int32_t>::max()) {
    wide_entry_ = Buffer<std::int64_t>(context, p.nonzeros);
    permute(builder.row_ptr64(), wide_entry_);
  } else {
    entry_ = Buffer<std::int32_t>(context, p.nonzeros);
    if (p.row_ptr.p32)
      permute(builder.row_ptr32(), entry_);
    else
      permute(builder.row_ptr64(), entry_);
  }
  matrix_ = builder.freeze();
}
#endif

template <class T>
void PermutedMatrix<T>::make_on_host(const ContextPtr& host, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  const std::int64_t n = p.rows;
  CsrBuilder<T> builder(host, n, n, p.nonzeros, p.row_ptr.p32 == nullptr);
  const bool wide = p.nonzeros > std::numeric_limits<std::int32_t>::max();
  Buffer<std::int32_t> entry(host, wide ? 0 : p.nonzeros);
  Buffer<std::int64_t> wide_entry(host, wide ? p.nonzeros : 0);
  const std::int32_t* const order = permutation_.order().data();
  const std::int32_t* const place = permutation_.place().data();
  std::int64_t at = 0;
  for (std::int64_t k = 0; k < n; ++k) builder.set_row_ptr(k + 1, at += p.row_length(order[k]));
  const int parts = useful_parts(*host, p.nonzeros);
  // Parts of nearly the same number of entries.
  const auto border = [&](int part) {
    const std::int64_t goal = p.nonzeros / parts * part;
    if (part == parts) return n;
    return first_where(std::int64_t{0}, n, [&](std::int64_t k) { return builder.row_ptr(k) >= goal; });
  };
  // For addresses that may lie behind an array, or the address of an array without entries, which is null.
  const auto prefetch = [](const auto* array, std::int64_t index) {
    const auto address =
        reinterpret_cast<std::uintptr_t>(array) + static_cast<std::uintptr_t>(index) * sizeof *array;
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  };
  parallel(parts, [&](int part, int) {
    std::vector<std::uint64_t> keys;
    const std::int64_t last = border(part + 1);
    for (std::int64_t k = border(part); k < last; ++k) {
      if (k + 8 < last) {  // the rows of A lie anywhere
        const std::int64_t soon = p.row_ptr[order[k + 8]];
        prefetch(p.col, soon), prefetch(p.col, soon + 16);
        for (int line = 0; line < 4; ++line) prefetch(matrix.values, soon + 8 * line);
      }
      const std::int64_t from = p.row_ptr[order[k]], length = p.row_length(order[k]), to = builder.row_ptr(k);
      keys.resize(static_cast<std::size_t>(length));
      for (std::int64_t i = 0; i < length; ++i)
        keys[i] = static_cast<std::uint64_t>(place[p.col[from + i]]) << 32 | static_cast<std::uint64_t>(i);
      sort_keys(keys.data(), length);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t source = from + static_cast<std::int64_t>(keys[i] & 0xffffffffu);
        builder.col()[to + i] = static_cast<std::int32_t>(keys[i] >> 32);
        builder.values()[to + i] = matrix.values[source];
        if (wide)
          wide_entry[to + i] = source;
        else
          entry[to + i] = static_cast<std::int32_t>(source);
      }
    }
  });
  matrix_ = builder.freeze();
  const ContextPtr& target = permutation_.context();
  if (target->space() == Space::device) {
    matrix_ = upload(target, matrix_);
    if (wide)
      wide_entry = copied(target, wide_entry.data(), p.nonzeros);
    else
      entry = copied(target, entry.data(), p.nonzeros);
  }
  entry_ = std::move(entry), wide_entry_ = std::move(wide_entry);
}

template <class T>
void PermutedMatrix<T>::check_values(const CsrMatrix<T>& from) const {
  detail::accept_values(from);
  const Context& context = *permutation_.context();
  if (from.rows() != matrix_.rows() || from.cols() != matrix_.cols() || from.nonzeros() != matrix_.nonzeros())
    throw ShapeMismatch(fmt::format(
        "new values are of a matrix of {} x {} with {} entries; this one is {} x {} with {}", from.rows(),
        from.cols(), from.nonzeros(), matrix_.rows(), matrix_.cols(), matrix_.nonzeros()));
  if (from.nonzeros() > 0 && from.pattern.space != context.space())
    throw WrongSpace(fmt::format("new values lie in {} memory; the permutation works on {} memory",
                                 to_string(from.pattern.space), to_string(context.space())));
  if (from.nonzeros() > 0 && !from.values) throw BadArgument("the new values are a null pointer");
}

template <class T>
void PermutedMatrix<T>::require_same_pattern(const CsrMatrix<T>& from) const {
  check_values(from);
  pattern_.require(*permutation_.context(), from.pattern);
}

template <class T>
void PermutedMatrix<T>::update_values(const CsrMatrix<T>& from) {
  require_same_pattern(from);
  update_values(from, SamePattern());
}

template <class T>
void PermutedMatrix<T>::update_values(const CsrMatrix<T>& from, SamePattern) {
  check_values(from);
  const Context& context = *permutation_.context();
  // Somebody may still read those before, for example a conversion next to a solve.
  if (!spare_ || spare_.use_count() > 1)
    spare_ = std::make_shared<Buffer<T>>(permutation_.context(), from.nonzeros());
  if (wide_entry_.size() > 0)
    gather(context, from.values, wide_entry_.data(), from.nonzeros(), spare_->data());
  else
    gather(context, from.values, entry_.data(), from.nonzeros(), spare_->data());
  std::swap(values_, spare_);
  matrix_.values = values_->data(), matrix_.values_owner = values_;
}

template <class T>
void PermutedMatrix<T>::restore(CsrMatrix<T> before) noexcept {
  std::swap(values_, spare_);
  matrix_ = std::move(before);
}

#define PROTEAN_PERMUTATION(T)                                                                           \
  template void Permutation::apply<T>(VectorView<const T>, VectorView<T>) const;                         \
  template void Permutation::apply_inverse<T>(VectorView<const T>, VectorView<T>) const;                 \
  template void Permutation::multi_apply<T>(MultiVectorView<const T>, MultiVectorView<T>) const;         \
  template void Permutation::multi_apply_inverse<T>(MultiVectorView<const T>, MultiVectorView<T>) const; \
  template class PermutedMatrix<T>;
PROTEAN_PERMUTATION(float)
PROTEAN_PERMUTATION(double)
#undef PROTEAN_PERMUTATION

}  // namespace protean
