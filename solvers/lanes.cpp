#include "solvers/lanes.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"

namespace protean::detail {

template <class T>
void ManyLanes<T>::allocate(const std::string& what) {
  double entries = 2 * static_cast<double>(number_count_) * static_cast<double>(most_);
  for (const Added& one : vectors_)
    entries +=
        static_cast<double>(one.vectors->count) * static_cast<double>(rows()) * static_cast<double>(most_);
  const double bytes = entries * static_cast<double>(sizeof(T));
  if (bytes > 1e18) throw OutOfMemory(what + " needs more memory than any address space has", 0);
  if (context().space() == Space::host) detail::require_memory(static_cast<std::size_t>(bytes), what);
  for (const Added& one : vectors_)
    one.vectors->memory = make_vector<T>(layout_.context, one.vectors->count * one.vectors->stride);
  for (Vector<T>* numbers : {&numbers_, &other_numbers_})
    *numbers = make_vector<T>(layout_.context, number_count_ * most_);
}

template <class T>
void ManyLanes<T>::reset(std::int64_t width) {
  width_ = width;
  // Then they lie in the same place in each solve.
  if (std::exchange(in_other_numbers_, false)) std::swap(numbers_, other_numbers_);
  for (const Added& one : vectors_)
    if (one.zeroed)
      for (std::int64_t i = 0; i < one.vectors->count; ++i) {
        const View v = vector(*one.vectors, i);
        fill<T>(context(), T(0), {v.data, rows() * width_, v.space});
      }
  fill<T>(context(), T(0), flags_);
  fill<T>(context(), T(0), numbers_);
}

template <class T>
void ManyLanes<T>::pack(std::int64_t width, std::span<const ColumnPair> keep, std::vector<View> kept,
                        T* free) {
  kept.push_back(x());
  for (const View& from : kept) {
    const View narrow{free, rows(), width, width, VectorLayout::interleaved, from.space};
    const VectorView<T> all{free, rows() * width, from.space};
    fill<T>(context(), T(0), all);
    copy_columns<T>(context(), from, narrow, keep);
    copy<T>(context(), all, VectorView<T>{from.data, all.size, all.space});
  }
  fill<T>(context(), T(0), other_numbers_);
  copy_columns<T>(
      context(), numbers(0, number_count_),
      {other_numbers_.data(), number_count_, width, width, VectorLayout::interleaved, other_numbers_.space()},
      keep);
  std::swap(numbers_, other_numbers_);
  in_other_numbers_ = !in_other_numbers_;
  width_ = width;
}

template <class T>
void ManyLanes<T>::mark(T* where, std::span<const ColumnPair> pairs) {
  std::vector<T> flags(static_cast<std::size_t>(width_), T(0));
  for (const ColumnPair pair : pairs) flags[static_cast<std::size_t>(pair.to)] = T(1);
  copy<T>(context(), VectorView<const T>{flags.data(), width_, Space::host},
          {where, width_, context().space()});
}

template class ManyLanes<float>;
template class ManyLanes<double>;

}  // namespace protean::detail
