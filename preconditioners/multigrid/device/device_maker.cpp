// The levels of smoothed aggregation in device memory, made by the device.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "core/transfer.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/multigrid/level_maker.hpp"

namespace protean::detail {
namespace {

// Smaller matrices that a device makes are kept in csr: to choose a format takes the host some milliseconds, and no
// solve of docs/results/preconditioners.md gained as much by other formats of the levels.
constexpr std::int64_t least_entries_to_choose = 8'000'000;

template <class T>
class DeviceLevels final : public LevelMaker<T> {
 public:
  DeviceLevels(const ContextPtr& context, const PreconditionerOptions& options,
               std::unique_ptr<LevelWork<T>> work, DeviceLevel<T> finest, const DeviceNodes& nodes)
      : context_(context),
        options_(options),
        work_(std::move(work)),
        here_(std::move(finest)),
        nodes_(&nodes) {}

  const CsrMatrix<T>& matrix() const override { return here_.csr; }
  Vector<T> dense() override {
    Vector<T> inverse(context_, here_.csr.rows() * here_.csr.rows());
    if (!work_->dense(here_, inverse)) refuse_overflow<T>("amg");
    return inverse;
  }
  Vector<T> l1() override {
    Vector<T> inverse(context_, here_.csr.rows());
    if (!work_->l1(here_, inverse)) refuse_overflow<T>("amg");
    return inverse;
  }
  std::shared_ptr<LevelStructure> structure(double strength,
                                            const std::shared_ptr<LevelStructure>& kept) override {
    structure_ = work_->structure(here_, *nodes_, {strength, most_halvings, least_coarsening},
                                  std::static_pointer_cast<DeviceStructure>(kept));
    if (!structure_) return nullptr;
    const auto always_csr = [&](const SparsityPattern& pattern) {
      return options_.level_format == LevelFormat::csr || pattern.nonzeros < least_entries_to_choose;
    };
    if (always_csr(structure_->P)) structure_->format_of_P = structure_->format_of_R = "csr";
    if (always_csr(structure_->coarse_pattern)) structure_->format = "csr";
    return structure_;
  }
  Transfer<T> coarsen() override {
    Transfer<T> made;
    made.P = work_->prolongator(here_, *nodes_, *structure_);
    made.R = work_->restriction(made.P, *structure_);
    const CsrMatrix<T> coarse =
        work_->product(made.R, work_->product(here_.csr, made.P, structure_->AP), structure_->coarse_pattern);
    std::int64_t bad = -1;
    DeviceLevel<T> next = work_->coarser(coarse, here_, *nodes_, *structure_, bad);
    if (bad >= 0) {
      T value{};
      copy_bytes(*context_, &value, Space::host, coarse.values + bad, Space::device, sizeof value);
      made.bad = value;
    }
    finer_ = structure_, nodes_ = &structure_->coarse;
    here_ = std::move(next);
    return made;
  }

 private:
  ContextPtr context_;
  const PreconditionerOptions& options_;
  std::unique_ptr<LevelWork<T>> work_;
  DeviceLevel<T> here_;
  const DeviceNodes* nodes_;
  std::shared_ptr<DeviceStructure> structure_;  // of the last structure()
  std::shared_ptr<DeviceStructure> finer_;      // holds nodes_, except on the finest level
};

DeviceNodes finest_nodes(const ContextPtr& context, std::int64_t rows, std::int64_t unknowns,
                         const NearNullSpace& finest) {
  DeviceNodes nodes;
  nodes.rows = rows, nodes.size = static_cast<std::int32_t>(unknowns);
  nodes.count = rows / unknowns, nodes.vectors = finest.vectors;
  if (!finest.values.empty()) {
    nodes.values = Buffer<double>(context, static_cast<std::int64_t>(finest.values.size()));
    copy_bytes(*context, nodes.values.data(), Space::device, finest.values.data(), Space::host,
               nodes.values.bytes());
  }
  return nodes;
}

}  // namespace

template <class T>
std::unique_ptr<LevelMaker<T>> device_level_maker(const LinearOperator<T>& A,
                                                  const PreconditionerOptions& options,
                                                  const NearNullSpace& finest, DeviceNodes& nodes,
                                                  std::string_view& why) {
  const auto on_the_host = [&](std::string_view figure) {
    why = figure;
    return nullptr;
  };
  if (!finest.first.empty()) return on_the_host("setup_on_host_uneven_nodes");
  const std::optional<CsrMatrix<T>> entries = csr_of(A);
  if (!entries || entries->pattern.space != Space::device)
    return on_the_host("setup_on_host_entries_elsewhere");
  if (std::max(entries->rows(), entries->nonzeros()) > std::numeric_limits<std::int32_t>::max())
    return on_the_host("setup_on_host_too_many_entries");
  std::unique_ptr<LevelWork<T>> work = level_work<T>(A.context());
  bool unsorted = false;
  std::optional<DeviceLevel<T>> level =
      work->finest(*entries, options.zero_diagonal == ZeroDiagonal::one, unsorted);
  if (unsorted) return on_the_host("setup_on_host_unsorted_rows");
  if (!level) return on_the_host("setup_on_host_refused_entries");  // it says which
  if (nodes.vectors == 0) nodes = finest_nodes(A.context(), A.rows(), options.unknowns, finest);
  return std::make_unique<DeviceLevels<T>>(A.context(), options, std::move(work), *std::move(level), nodes);
}

#define PROTEAN_INSTANTIATE(T)                                                                    \
  template std::unique_ptr<LevelMaker<T>> device_level_maker<T>(                                  \
      const LinearOperator<T>&, const PreconditionerOptions&, const NearNullSpace&, DeviceNodes&, \
      std::string_view&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
