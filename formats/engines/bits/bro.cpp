// Coded columns and rows on the host: conversion and new values. bro.hpp describes the arrays; admission is in
// bro_plan.cpp, and the products are in bro_kernel.cpp.
#include "formats/engines/bits/bro.hpp"

#include <algorithm>

#include "core/behind.hpp"
#include "formats/engines/bits/bro_plan.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/view/row_view.hpp"

namespace protean::formats {
namespace {

template <class T>
class BroMatrix final : public RowViewMatrix<T, BroMatrix<T>> {
 public:
  explicit BroMatrix(const BuildRequest<T>& request)
      : BroMatrix(request, plan_of<BroPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return values_.bytes() + perm_.bytes() + col_ptr_.bytes() + symbol_ptr_.bytes() + bit_alloc_.bytes() +
           symbols_.bytes() + ptr32_.bytes() + ptr64_.bytes() + width_.bytes() + base_.bytes() +
           col_.bytes() + interval_symbol_.bytes() + tail_symbols_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    const BroShape& shape = sizes_.shape;
    std::vector<LayoutArray> arrays;
    if (shape.sorted) arrays.push_back(layout_array("perm", perm_));
    if (shape.slices) {
      arrays.push_back(layout_array("col_ptr", col_ptr_));
      arrays.push_back(layout_array("bit_alloc", bit_alloc_));
      arrays.push_back(layout_array("symbol_ptr", symbol_ptr_));
      arrays.push_back(layout_array("symbols", symbols_));
      arrays.push_back(layout_array("values", values_.data(), sizes_.slots));
    }
    const std::string tail = shape.slices ? "tail_" : "";
    if (shape.tail == BroTail::rows) {
      const std::int64_t rows = sizes_.rows + 1;
      const auto both = [&](const auto& ptr) {
        arrays.push_back(layout_array(tail + "row_ptr", ptr.data(), rows));
        arrays.push_back(layout_array(tail + "row_symbol", ptr.data() + rows, rows));
      };
      if (ptr64_.empty())
        both(ptr32_);
      else
        both(ptr64_);
    } else if (shape.tail == BroTail::entries) {
      arrays.push_back(layout_array(tail + "base", base_));
      arrays.push_back(layout_array(tail + "interval_symbol", interval_symbol_));
      arrays.push_back(layout_array(tail + "col", col_));
    }
    if (shape.tail != BroTail::none) {
      arrays.push_back(layout_array(tail + "width", width_));
      arrays.push_back(layout_array(tail + "symbols", tail_symbols_));
      arrays.push_back(layout_array(tail + "values", values_.data() + sizes_.slots, sizes_.tail_entries));
    }
    return arrays;
  }
  BroView<T> row_view() const {
    BroView<T> view{};
    view.values = values_.data(), view.rows = sizes_.rows;
    view.perm = sizes_.shape.sorted ? perm_.data() : nullptr;
    view.slices = sizes_.shape.slices, view.h = sizes_.shape.h;
    view.col_ptr = col_ptr_.data(), view.symbol_ptr = symbol_ptr_.data();
    view.bit_alloc = bit_alloc_.data(), view.symbols = symbols_.data();
    view.tail = sizes_.shape.tail, view.tail_at = sizes_.slots, view.tail_entries = sizes_.tail_entries;
    view.tail_symbols = tail_symbols_.data(), view.width = width_.data();
    const std::int64_t rows = sizes_.rows + 1;
    if (!ptr32_.empty())
      view.row_ptr.p32 = ptr32_.data(), view.row_symbol.p32 = ptr32_.data() + rows;
    else if (!ptr64_.empty())
      view.row_ptr.p64 = ptr64_.data(), view.row_symbol.p64 = ptr64_.data() + rows;
    view.base = base_.data(), view.col = col_.data(), view.interval_symbol = interval_symbol_.data();
    view.W = sizes_.shape.W, view.q = sizes_.shape.q;
    return view;
  }
  T* mutable_values() { return values_.data(); }

  void multiply(T alpha, const T* x, T beta, T* y) const {
    BroProduct<T> job{row_view(), alpha, x, beta, y, false, alike_};
    if (sizes_.shape.slices) {
      const int parts = static_cast<int>(slice_borders_.size()) - 1;
      parallel(parts, [&](int part, int) {
        const auto i = static_cast<std::size_t>(part);
        bro_slices(job, slice_borders_[i], slice_borders_[i + 1]);
      });
      job.beta = T(1), job.adding = true;
    }
    if (sizes_.shape.tail == BroTail::rows) {
      const int parts = static_cast<int>(tail_borders_.size()) - 1;
      parallel(parts, [&](int part, int) {
        const auto i = static_cast<std::size_t>(part);
        bro_rows(job, tail_borders_[i], tail_borders_[i + 1]);
      });
    } else if (sizes_.shape.tail == BroTail::entries) {
      multiply_entries(job);
    }
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill<false>(csr); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    // The view looks for each row among the entries; here one row follows another.
    if (this->context()->deterministic() && sizes_.shape.tail == BroTail::entries)
      multiply_ordered(alpha, x.data, beta, y.data);
    else
      RowViewMatrix<T, BroMatrix<T>>::do_apply(alpha, x, beta, y);
  }

 private:
  BroMatrix(const BuildRequest<T>& request, const BroPlan& plan)
      : RowViewMatrix<T, BroMatrix<T>>(request), sizes_(plan.sizes) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const auto copy = [&](const auto& from, auto& to) {
      using Item = std::remove_cvref_t<decltype(from[0])>;
      to = Buffer<Item>(context, static_cast<std::int64_t>(from.size()));
      copy_array(*context, from.data(), to.size(), to.data());
    };
    copy(plan.perm, perm_), copy(plan.col_ptr, col_ptr_), copy(plan.symbol_ptr, symbol_ptr_);
    copy(plan.bit_alloc, bit_alloc_), copy(plan.width, width_), copy(plan.base, base_);
    copy(plan.interval_symbol, interval_symbol_);
    values_ = Buffer<T>(context, sizes_.slots + sizes_.tail_entries);
    symbols_ = Buffer<std::uint32_t>(context, sizes_.symbols);
    tail_symbols_ = Buffer<std::uint32_t>(context, sizes_.tail_symbols);
    if (sizes_.shape.tail == BroTail::entries) col_ = Buffer<std::int32_t>(context, sizes_.tail_entries);
    if (sizes_.shape.tail == BroTail::rows) {
      if (pattern.row_ptr.p32)
        point(pattern, ptr32_);
      else
        point(pattern, ptr64_);
      alike_ = !sizes_.shape.slices && rows_alike(pattern);
    }
    divide();
    fill<true>(request.csr);
  }

  const std::int32_t* perm() const { return sizes_.shape.sorted ? perm_.data() : nullptr; }

  template <class P>
  void point(const SparsityPattern& pattern, Buffer<P>& ptr) {
    const std::int64_t rows = sizes_.rows;
    ptr = Buffer<P>(this->context(), 2 * (rows + 1));
    P entries = 0, symbols = 0;
    for (std::int64_t p = 0; p < rows; ++p) {
      const RowOfSource its = row_of_source(pattern, sizes_.shape, perm(), p);
      ptr[p] = entries, ptr[rows + 1 + p] = symbols;
      entries += static_cast<P>(its.end - its.middle);
      symbols += static_cast<P>(row_symbols(its.end - its.middle, width_[p]));
    }
    ptr[rows] = entries, ptr[2 * rows + 1] = symbols;
  }

  // Borders of the parts of a product.
  void divide() {
    const BroView<T> view = row_view();
    const auto borders = [&](std::int64_t size, const auto& work) {
      const int parts = useful_parts(*this->context(), work(size));
      std::vector<std::int64_t> found{0};
      for (int part = 0; part < parts; ++part) {
        const std::int64_t target = even_range(work(size), part, parts).end;
        found.push_back(part + 1 == parts ? size : first_where(found.back(), size, [&](std::int64_t i) {
          return work(i) >= target;
        }));
      }
      return found;
    };
    if (sizes_.shape.slices)
      slice_borders_ = borders(sizes_.slices(), [&](std::int64_t s) {
        return std::min(sizes_.rows, s * view.h) + view.h * view.col_ptr[s];
      });
    if (sizes_.shape.tail == BroTail::rows)
      tail_borders_ = borders(sizes_.rows, [&](std::int64_t p) { return p + view.row_ptr[p]; });
  }

  // Streams (unless only values change), columns of coordinates and values.
  template <bool structure>
  void fill(const CsrMatrix<T>& csr) {
    const SparsityPattern& pattern = csr.pattern;
    const BroShape& shape = sizes_.shape;
    if (shape.slices) fill_slices<structure>(csr);
    if (shape.tail == BroTail::rows) {
      const BroView<T> view = row_view();
      const int parts = static_cast<int>(tail_borders_.size()) - 1;
      parallel(parts, [&](int part, int) {
        const auto i = static_cast<std::size_t>(part);
        for (std::int64_t p = tail_borders_[i]; p < tail_borders_[i + 1]; ++p) {
          const RowOfSource its = row_of_source(pattern, shape, perm(), p);
          if (its.middle == its.end) continue;
          std::copy(csr.values + its.middle, csr.values + its.end,
                    values_.data() + sizes_.slots + view.row_ptr[p]);
          if constexpr (structure) {
            std::uint32_t* const stream = tail_symbols_.data() + view.row_symbol[p];
            *stream = static_cast<std::uint32_t>(pattern.col[its.middle]);
            FieldWriter writer(stream + 1, 1);
            for (std::int64_t k = its.middle + 1; k < its.end; ++k)
              writer.put(column_step(pattern.col, k), width_[p]);
            writer.finish();
          }
        }
      });
    }
    if (shape.tail == BroTail::entries) fill_entries<structure>(csr);
  }

  template <bool structure>
  void fill_slices(const CsrMatrix<T>& csr) {
    const SparsityPattern& pattern = csr.pattern;
    const BroView<T> view = row_view();
    const int parts = static_cast<int>(slice_borders_.size()) - 1;
    parallel(parts, [&](int part, int) {
      const auto i = static_cast<std::size_t>(part);
      const std::int64_t end = std::min(sizes_.rows, slice_borders_[i + 1] * view.h);
      for (std::int64_t p = slice_borders_[i] * view.h; p < end; ++p) {
        const std::int64_t s = p / view.h, lanes = view.lanes(s), lane = p % view.h;
        const RowOfSource its = row_of_source(pattern, sizes_.shape, perm(), p);
        T* value = behind(values_.data(), view.h * view.col_ptr[s] + lane);
        if constexpr (!structure) {
          for (std::int64_t k = its.begin; k < its.middle; ++k, value += lanes) *value = csr.values[k];
          continue;
        }
        FieldWriter writer(behind(symbols_.data(), view.h * view.symbol_ptr[s] + lane), lanes);
        std::int32_t before = -1;
        std::int64_t k = its.begin;
        for (std::int64_t slot = view.col_ptr[s]; slot < view.col_ptr[s + 1]; ++slot, ++k, value += lanes) {
          const bool there = k < its.middle;
          *value = there ? csr.values[k] : T(0);
          writer.put(there ? static_cast<std::uint32_t>(pattern.col[k] - before) : 0u, bit_alloc_[slot]);
          if (there) before = pattern.col[k];
        }
        writer.finish();
      }
    });
  }

  template <bool structure>
  void fill_entries(const CsrMatrix<T>& csr) {
    const SparsityPattern& pattern = csr.pattern;
    const BroShape& shape = sizes_.shape;
    const std::vector<std::int64_t> before = tail_pointers(pattern, shape, nullptr);
    const int parts = useful_parts(*this->context(), pattern.nonzeros + pattern.rows);
    const std::vector<std::int64_t> borders = balanced_row_borders(pattern, parts);
    T* const values = values_.data() + sizes_.slots;
    parallel(parts, [&](int part, int) {
      const auto i = static_cast<std::size_t>(part);
      for (std::int64_t r = borders[i]; r < borders[i + 1]; ++r) {
        const RowOfSource its = row_of_source(pattern, shape, nullptr, r);
        const std::int64_t to = before[static_cast<std::size_t>(r)];
        std::copy(csr.values + its.middle, csr.values + its.end, values + to);
        if constexpr (structure) std::copy(pattern.col + its.middle, pattern.col + its.end, col_.data() + to);
      }
    });
    if constexpr (structure) {
      parallel(parts, [&](int part, int) {
        const Range range = even_range(sizes_.intervals(), part, parts);
        if (range.size() == 0) return;
        TailRows rows(pattern, shape, range.begin * sizes_.interval(), before);
        std::vector<std::int32_t> last(static_cast<std::size_t>(shape.W));
        std::vector<FieldWriter> writers;
        for (std::int64_t n = range.begin; n < range.end; ++n) {
          writers.clear();
          for (int lane = 0; lane < shape.W; ++lane)
            writers.emplace_back(behind(tail_symbols_.data(), interval_symbol_[n] + lane), shape.W);
          for_interval(sizes_, n, rows, [&](std::int64_t k, std::int32_t row) {
            const auto lane = static_cast<std::size_t>(k % shape.W);
            writers[lane].put(static_cast<std::uint32_t>(row - (k < shape.W ? base_[n] : last[lane])),
                              width_[n]);
            last[lane] = row;
          });
          for (FieldWriter& writer : writers) writer.finish();
        }
      });
    }
  }

  void multiply_entries(const BroProduct<T>& job) const {
    const int parts = useful_parts(*this->context(), sizes_.tail_entries);
    PartialSums<BroCarry<T>> carries(parts);
    if (sizes_.tail_entries == 0) {
      for (std::int64_t r = 0; r < sizes_.rows && !job.adding; ++r) store(T(0), T(0), job.beta, job.y[r]);
      return;
    }
    // The first part is never empty, and the last one writes the rows behind the last entry.
    const std::int64_t intervals = sizes_.intervals();
    const int used = static_cast<int>(std::min<std::int64_t>(parts, intervals));
    parallel(used, [&](int part, int) {
      const Range range = even_range(intervals, part, used);
      carries[part] = bro_entries(job, range.begin, range.end);
    });
    for (int part = 0; part < used; ++part)
      if (carries[part].row >= 0) job.y[carries[part].row] += job.alpha * carries[part].sum;
  }

  void multiply_ordered(T alpha, const T* x, T beta, T* y) const {
    const BroView<T> view = row_view();
    const int parts = useful_parts(*this->context(), this->nonzeros() + sizes_.rows);
    parallel(parts, [&](int part, int) {
      const Range range = even_range(sizes_.rows, part, parts);
      std::int64_t k = view.first_entry(range.begin);
      // The rows of the interval that holds entry k.
      alignas(64) std::int32_t rows[most_bro_interval];
      std::int64_t decoded = -1;
      const auto row_of = [&](std::int64_t entry) {
        const std::int64_t i = entry / sizes_.interval();
        if (i != decoded) bro_decode_rows(view, i, rows), decoded = i;
        return rows[entry % sizes_.interval()];
      };
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        T sum = 0;
        if (view.slices)
          view.for_slots(r, [&](std::int32_t col, std::int64_t place) {
            sum = std::fma(view.values[place], x[col], sum);
          });
        for (; k < sizes_.tail_entries && row_of(k) == r; ++k)
          sum = std::fma(view.values[view.tail_at + k], x[view.col[k]], sum);
        const T scaled = alpha * sum;
        y[r] = beta == T(0) ? scaled : std::fma(beta, y[r], scaled);
      }
    });
  }

  BroSizes sizes_;
  std::vector<std::int64_t> slice_borders_, tail_borders_;
  bool alike_ = false;
  Buffer<T> values_;
  Buffer<std::int32_t> perm_, ptr32_, base_, col_;
  Buffer<std::int64_t> col_ptr_, symbol_ptr_, ptr64_, interval_symbol_;
  Buffer<std::uint8_t> bit_alloc_, width_;
  Buffer<std::uint32_t> symbols_, tail_symbols_;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_bro(const BuildRequest<T>& request) {
  return std::make_unique<BroMatrix<T>>(request);
}
template std::unique_ptr<AssembledMatrix<double>> make_bro<double>(const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_bro<float>(const BuildRequest<float>&);

}  // namespace protean::formats
