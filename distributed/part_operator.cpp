#include "distributed/part_operator.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "distributed/gpu_parts.hpp"
#endif

namespace protean::detail {

template <class T>
PartOperator<T>::PartOperator(const ContextPtr& context, std::unique_ptr<AssembledMatrix<T>> interior,
                              std::unique_ptr<AssembledMatrix<T>> boundary, const PartHalo& halo,
                              std::unique_ptr<HaloExchange<T>> exchange)
    : LinearOperator<T>(context, interior->shape()),
      interior_(std::move(interior)),
      boundary_(std::move(boundary)),
      exchange_(std::move(exchange)),
      ghosts_(context, std::ssize(halo.ghosts)),
      of_boundary_(context, std::ssize(halo.boundary_rows)),
      boundary_rows_(context, std::ssize(halo.boundary_rows)) {
  if (context->space() == Space::host)
    std::copy(halo.boundary_rows.begin(), halo.boundary_rows.end(), boundary_rows_.data());
  else
    copy_bytes(*context, boundary_rows_.data(), context->space(), halo.boundary_rows.data(), Space::host,
               boundary_rows_.bytes());
  fill<T>(*context, T(0), ghosts_);
  fill<T>(*context, T(0), of_boundary_);
}

template <class T>
Recording PartOperator<T>::recording() const noexcept {
  Recording all = interior_->recording();
  if (!boundary_) return all;
  const Recording other = boundary_->recording();
  all.allowed = all.allowed && other.allowed;
  // Both only grow, so their sum changes with each of them.
  all.version = all.version == 0 || other.version == 0 ? 0 : all.version + other.version;
  all.bytes = all.bytes == 0 || other.bytes == 0 ? 0 : all.bytes + other.bytes;
  all.heeds_stop = all.heeds_stop && other.heeds_stop;
  return all;
}

template <class T>
void PartOperator<T>::diagonal(VectorView<T> diagonal) const {
  interior_->diagonal(diagonal);
}

template <class T>
void PartOperator<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  const bool timed = this->context()->space() == Space::host;
  const auto measured = [&](auto&& work) {
    if (!timed) return work();
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  exchange_->begin(x);
  const LocalWork local;
  measured([&] { interior_->apply(alpha, x, beta, y); });
  exchange_->end(ghosts_);
  if (!boundary_) return;
  measured([&] {
    boundary_->apply(alpha, ghosts_, T(0), of_boundary_);
    add_at<T>(*this->context(), boundary_rows_, of_boundary_, y);
  });
}

template <class T>
void add_at(const Context& context, const Buffer<std::int32_t>& rows, VectorView<const T> t,
            VectorView<T> y) {
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated()) return add_at_on_gpu(context, rows, t, y);
#endif
  const DeviceWork work(context, {rows.data(), t.data, y.data});
  if (work.ended()) return;
  for (std::int64_t k = 0; k < t.size; ++k) y.data[rows.data()[k]] += t.data[k];
}

template <class T>
PartPreconditioner<T>::PartPreconditioner(std::unique_ptr<Preconditioner<T>> local)
    : Preconditioner<T>(local->context(), local->shape()), local_(std::move(local)) {}

template <class T>
void PartPreconditioner<T>::ensure_for(const AssembledMatrix<T>& interior) {
  const LocalWork here;
  local_->ensure(interior);
}

template <class T>
void PartPreconditioner<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  const LocalWork here;
  local_->apply(alpha, x, beta, y);
}

#define PROTEAN_INSTANTIATE(T)          \
  template class PartOperator<T>;       \
  template class PartPreconditioner<T>; \
  template void add_at<T>(const Context&, const Buffer<std::int32_t>&, VectorView<const T>, VectorView<T>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
