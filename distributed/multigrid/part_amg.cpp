// Smoothed aggregation over several parts. The method and the cycle are those of preconditioners/multigrid/
// aggregation.cpp; part_levels.hpp says what differs in the setup. A level has the rows of each part in that part, P
// and R = P^T like A: a product sends the entries of neighbours' aggregates. The first level with few rows lies whole
// in each part, as do all coarser ones (amg of one device): for it each part gets the residual of all parts, and takes
// its own rows of the result.
//
// The finest level is divided always, unless it is so small that its inverse is computed. Everything is made again for
// new values. The hosts make the levels; the coarser matrices then lie in the space of the context.
#include "distributed/multigrid/part_amg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "distributed/multigrid/part_levels.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/multigrid/device/device_cycle.hpp"
#include "preconditioners/multigrid/near_null_space.hpp"
#include "preconditioners/sparse/level_format.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t most_dense_rows = 256;

// A matrix of a level in the space of the context, and the halo, which outlives it.
template <class T>
struct Placed {
  std::unique_ptr<PartHalo> halo;
  std::unique_ptr<PartOperator<T>> matrix;
  std::size_t bytes() const noexcept {
    if (!matrix) return 0;
    return matrix->interior().bytes() + (matrix->boundary() ? matrix->boundary()->bytes() : 0) +
           halo->ghosts.size() * (4 + sizeof(T)) + halo->boundary_rows.size() * (8 + sizeof(T));
  }
};

// A level that lies whole in this part.
template <class T>
struct Replicated {
  std::unique_ptr<PartHalo> halo;  // the ghosts are the rows of all other parts
  std::unique_ptr<HaloExchange<T>> exchange;
  std::unique_ptr<AssembledMatrix<T>> matrix;
  std::unique_ptr<Preconditioner<T>> M;
  mutable Vector<T> others, rhs, result;  // the first has the ghosts
  std::int64_t begin = 0;                 // of the rows of this part
};

template <class T>
struct Level {
  Placed<T> A, P, R;  // A is empty on the finest level, P and R on the coarsest one
  Vector<T> l1;
  std::unique_ptr<Preconditioner<T>> smoother;  // else
  std::unique_ptr<Replicated<T>> whole;         // instead of a smoother
  std::int64_t rows = 0, all_rows = 0;
  double all_entries = 0;
  mutable Vector<T> rhs, result, residual;  // the first two not on the finest level
};

template <class T>
class PartAmg final : public BySolving<T> {
 public:
  PartAmg(const PartOperator<T>& A, const PreconditionerOptions& options, ContextPtr host,
          PartSource<T> source, std::int64_t replicated_rows)
      : BySolving<T>(A),
        options_(options),
        host_(std::move(host)),
        source_(std::move(source)),
        replicated_rows_(replicated_rows) {
    if (options_.near_null_space) {
      vectors_ = options_.near_null_space->columns();
      near_null_space_ = near_null_space_of(all_rows(*A.context(), A.rows()), *options_.near_null_space);
      options_.near_null_space = nullptr;
    }
  }

  std::string_view name() const noexcept override { return "amg"; }
  std::string storage_reason() const override {
    return options_.storage == PreconditionerStorage::automatic ? "amg over several parts keeps doubles"
                                                                : std::string();
  }
  Recording recording() const noexcept override {
    if (levels_.empty()) return {false, 0, 0, false};
    const Recording product = A_->recording();
    Recording all{product.allowed, product.version == 0 ? 0 : product.version + this->setups(),
                  2 * product.bytes, true};
    for (const Level<T>& level : levels_) {
      const auto add = [&](const LinearOperator<T>& one, std::size_t times, bool writes_z) {
        const Recording work = one.recording();
        all.allowed = all.allowed && work.allowed, all.bytes += times * work.bytes;
        if (writes_z) all.heeds_stop = all.heeds_stop && work.heeds_stop;
      };
      const bool finest = &level == levels_.data();
      if (level.A.matrix) add(*level.A.matrix, 2, false);
      if (level.P.matrix) add(*level.P.matrix, 1, finest), add(*level.R.matrix, 1, false);
      if (level.smoother) add(*level.smoother, 2, finest);
      if (level.whole) add(*level.whole->M, 1, finest);
    }
    return all;
  }
  std::vector<PreconditionerFigure> figures() const override {
    if (levels_.empty()) return {};
    double rows = 0, entries = 0;
    for (const Level<T>& level : levels_)
      rows += static_cast<double>(level.all_rows), entries += level.all_entries;
    const Level<T>& finest = levels_.front();
    double count = static_cast<double>(levels_.size());
    double coarsest = static_cast<double>(levels_.back().all_rows);
    if (const auto& whole = levels_.back().whole)
      for (const PreconditionerFigure& one : whole->M->figures()) {
        if (one.name == "levels") count += one.value - 1;
        if (one.name == "coarsest_rows") coarsest = one.value;
        if (one.name == "operator_complexity") entries += (one.value - 1) * levels_.back().all_entries;
        if (one.name == "grid_complexity")
          rows += (one.value - 1) * static_cast<double>(levels_.back().all_rows);
      }
    return {{"levels", count},
            {"operator_complexity", finest.all_entries > 0 ? entries / finest.all_entries : 1},
            {"grid_complexity", finest.all_rows > 0 ? rows / static_cast<double>(finest.all_rows) : 1},
            {"coarsest_rows", coarsest},
            {"replicated_rows", levels_.back().whole ? static_cast<double>(levels_.back().all_rows) : 0}};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    Communicator& all = *communicator_of(*this->context());
    PartLevels<T> maker = finest(all, A);
    std::vector<Level<T>> made;
    double strength = options_.strength;
    PartMatrix<T> matrix;  // of the level
    for (;; strength /= 2) {
      const std::size_t l = made.size();
      Level<T>& level = made.emplace_back();
      level.rows = maker.rows(), level.all_rows = maker.all_rows();
      for (const double one : all.gathered({static_cast<double>(maker.nonzeros())})) level.all_entries += one;
      if (l > 0) {
        level.A = placed(std::move(matrix), true);
        level.rhs = Vector<T>(this->context(), level.rows);
        level.result = Vector<T>(this->context(), level.rows);
      }
      const std::int64_t limit = l > 0 ? std::max(replicated_rows_, most_dense_rows) : most_dense_rows;
      const bool last = static_cast<std::int64_t>(l) + 1 >= options_.max_levels;
      level.residual = Vector<T>(this->context(), level.rows);
      if (level.all_rows <= limit && (l > 0 || !last)) {
        replicate(all, maker, strength, l, level);
        break;
      }
      if (options_.smoother == Smoother::l1_jacobi) level.l1 = there(maker.l1());
      if (last) break;
      auto step = maker.coarsen(strength);
      if (!step) {
        if (level.all_rows <= replicated_rows_) replicate(all, maker, strength, l, level);
        break;
      }
      level.P = placed(std::move(step->P), false), level.R = placed(std::move(step->R), false);
      matrix = std::move(step->A);
    }
    // From here on parts may wait for each other in products, and nobody allocates.
    (void)all.gathered({});
    if (options_.smoother == Smoother::chebyshev)
      for (std::size_t l = 0; l < made.size(); ++l)
        if (!made[l].whole) make_smoother(l == 0 ? A : *made[l].A.matrix, l == 0, made[l]);
    levels_ = std::move(made), A_ = &A;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const std::lock_guard lock(mutex_);
    for (std::int64_t k = 0; k < options_.cycles; ++k) cycle(0, r, z, k == 0);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    std::size_t sum = 8 * near_null_space_.size();
    for (const Level<T>& level : levels_) {
      sum += level.A.bytes() + level.P.bytes() + level.R.bytes();
      for (const Vector<T>* v :
           std::initializer_list<const Vector<T>*>{&level.l1, &level.rhs, &level.result, &level.residual})
        sum += static_cast<std::size_t>(v->size()) * sizeof(T);
      if (level.smoother) sum += level.smoother->bytes();
      if (const auto& whole = level.whole)
        sum += whole->matrix->bytes() + whole->M->bytes() +
               static_cast<std::size_t>(whole->others.size() + whole->rhs.size() + whole->result.size()) *
                   sizeof(T);
    }
    return sum;
  }

 private:
  bool on_device() const noexcept { return this->context()->space() == Space::device; }

  PartLevels<T> finest(Communicator& all, const LinearOperator<T>& A) const {
    const std::int64_t unknowns = options_.unknowns;
    Nodes nodes;
    for (std::int64_t i = unknowns; i <= A.rows(); i += unknowns)
      nodes.first.push_back(static_cast<std::int32_t>(i));
    bool whole = A.rows() % unknowns == 0;
    for (std::int64_t i = 0; whole && i < A.rows(); ++i)
      whole = all.number_of(i) % unknowns == i % unknowns &&
              all.number_of(i) - all.number_of(i - i % unknowns) == i % unknowns;
    bool all_whole = true;
    std::vector<std::int64_t> begins = {0};
    const std::vector<double> of_parts = all.gathered({whole ? 1.0 : 0.0, static_cast<double>(A.rows())});
    for (std::size_t k = 0; k < of_parts.size(); k += 2) {
      all_whole = all_whole && of_parts[k] != 0;
      begins.push_back(begins.back() + static_cast<std::int64_t>(of_parts[k + 1]));
    }
    if (!all_whole)
      throw BadArgument(fmt::format(
          "amg: unknowns is {}, and the partition divides nodes among parts, or {} does not divide the {} rows; "
          "take a partition that keeps the rows of a node together, or unknowns 1",
          unknowns, unknowns, all.rows()));
    nodes.number_rows();
    nodes.vectors = vectors_ > 0 ? vectors_ : unknowns;
    nodes.values.assign(at(A.rows() * nodes.vectors), 0);
    for (std::int64_t i = 0; i < A.rows(); ++i)
      if (vectors_ > 0)
        std::copy_n(near_null_space_.begin() + all.number_of(i) * vectors_, vectors_,
                    nodes.values.begin() + i * vectors_);
      else
        nodes.values[at(i * unknowns + i % unknowns)] = 1;
    const std::int64_t begin = begins[static_cast<std::size_t>(all.part())];
    return {all,
            host_,
            options_,
            std::move(begins),
            rows_of_blocks(source_.interior(), source_.boundary(), source_.halo, begin),
            source_.halo,
            std::move(nodes)};
  }

  // formats: the interior block has one that is chosen for it.
  Placed<T> placed(PartMatrix<T> matrix, bool square) const {
    Placed<T> made;
    made.halo = std::move(matrix.halo);
    const auto in = [&](const CsrMatrix<T>& block, std::string format) {
      return in_format<T>(this->context(),
                          on_device() ? upload(this->context(), narrow<T>(host_, block)) : block,
                          block.pattern, format);
    };
    const bool csr = options_.level_format == LevelFormat::csr || (!on_device() && !square) ||
                     matrix.blocks.interior.nonzeros() == 0;
    auto interior = in(matrix.blocks.interior, csr ? "csr" : "");
    auto boundary = made.halo->boundary_rows.empty() ? nullptr : in(matrix.blocks.boundary, "csr");
    made.matrix = std::make_unique<PartOperator<T>>(this->context(), std::move(interior), std::move(boundary),
                                                    *made.halo, source_.exchange(*made.halo));
    return made;
  }
  Vector<T> there(Vector<T> made) const {
    if (!on_device()) return made;
    Vector<T> moved(this->context(), made.size());
    copy<T>(*this->context(), made, moved);
    return moved;
  }
  void make_smoother(const LinearOperator<T>& A, bool finest, Level<T>& level) const {
    PreconditionerOptions options;
    options.zero_diagonal = finest ? options_.zero_diagonal : ZeroDiagonal::one;
    options.degree = 1, options.eigenvalue_ratio = 10;
    level.smoother = make_preconditioner<T>("chebyshev", A, options);
    level.smoother->ensure(A);
  }

  void replicate(Communicator& all, const PartLevels<T>& maker, double strength, std::size_t l,
                 Level<T>& level) const {
    WholeLevel<T> found = maker.whole();
    auto whole = std::make_unique<Replicated<T>>();
    whole->begin = maker.first_row();
    whole->halo = std::make_unique<PartHalo>();
    const std::int64_t end = whole->begin + level.rows;
    for (std::int64_t i = 0; i < level.all_rows; ++i)
      if (i < whole->begin || i >= end) whole->halo->ghosts.push_back(static_cast<std::int32_t>(i));
    find_neighbours(all, maker.begins(), *whole->halo);
    whole->exchange = source_.exchange(*whole->halo);
    const ContextPtr& context = this->context();
    whole->others = Vector<T>(context, level.all_rows - level.rows);
    whole->rhs = Vector<T>(context, level.all_rows), whole->result = Vector<T>(context, level.all_rows);
    const LocalWork local;
    std::string format = options_.level_format == LevelFormat::csr ? "csr" : "";
    whole->matrix =
        in_format<T>(context, on_device() ? upload(context, narrow<T>(host_, found.csr)) : found.csr,
                     found.csr.pattern, format);
    PreconditionerOptions options = options_;
    options.cycles = 1, options.strength = strength, options.unknowns = found.unknowns;
    options.max_levels = options_.max_levels - static_cast<std::int64_t>(l);
    if (l > 0) options.zero_diagonal = ZeroDiagonal::one;
    whole->M = make_smoothed_aggregation<T>(*whole->matrix, options, std::move(found.nodes));
    whole->M->ensure(*whole->matrix);
    level.whole = std::move(whole);
  }

  const LinearOperator<T>& matrix(std::size_t l) const { return l == 0 ? *A_ : *levels_[l].A.matrix; }

  void copy_rows(VectorView<const T> from, VectorView<T> to) const {
    if (from.size > 0) axpby<T>(*this->context(), T(1), from, T(0), to);
  }
  void solve_whole(const Replicated<T>& whole, VectorView<const T> r, VectorView<T> z, bool from_zero) const {
    const auto piece = [](auto view, std::int64_t first, std::int64_t size) {
      view.data += first, view.size = size;
      return view;
    };
    const std::int64_t before = whole.begin, after = whole.others.size() - before;
    whole.exchange->begin(r);
    whole.exchange->end(whole.others);
    const VectorView<const T> others = whole.others;
    const VectorView<T> rhs = whole.rhs;
    copy_rows(piece(others, 0, before), piece(rhs, 0, before));
    copy_rows(r, piece(rhs, before, r.size));
    copy_rows(piece(others, before, after), piece(rhs, before + r.size, after));
    const LocalWork local;
    whole.M->apply(T(1), VectorView<const T>(rhs), T(0), whole.result);
    const VectorView<const T> mine = piece(whole.result.view(), before, r.size);
    if (r.size > 0) axpby<T>(*this->context(), T(1), mine, from_zero ? T(0) : T(1), z);
  }

  void find_residual(std::size_t l, VectorView<const T> r, VectorView<const T> z) const {
    Vector<T>& residual = levels_[l].residual;
    copy_rows(r, residual);
    matrix(l).apply(T(-1), z, T(1), residual);
  }
  // z := S^-1 r if z is zero, else z := z + S^-1 (r - A z)
  void smooth(std::size_t l, VectorView<const T> r, VectorView<T> z, bool from_zero) const {
    const Context& context = *this->context();
    const Level<T>& level = levels_[l];
    if (!from_zero && on_device() && !level.smoother) {
      matrix(l).apply(z, level.residual);
      return next_sweep<T>(context, level.l1, r, level.residual, z);
    }
    if (!from_zero) find_residual(l, r, z);
    const VectorView<const T> rest = from_zero ? r : level.residual.view();
    if (level.smoother)
      level.smoother->apply(T(1), rest, from_zero ? T(0) : T(1), z);
    else if (from_zero)
      multiply<T>(context, level.l1, rest, z);
    else
      multiply_add<T>(context, level.l1, rest, T(1), z);
  }
  void cycle(std::size_t l, VectorView<const T> r, VectorView<T> z, bool from_zero) const {
    const Level<T>& level = levels_[l];
    if (level.whole) {
      if (from_zero || l > 0) return solve_whole(*level.whole, r, z, true);
      find_residual(l, r, z);
      return solve_whole(*level.whole, level.residual.view(), z, false);
    }
    smooth(l, r, z, from_zero);
    if (!level.P.matrix) return;
    find_residual(l, r, z);
    const Level<T>& coarse = levels_[l + 1];
    level.R.matrix->apply(level.residual, coarse.rhs);
    cycle(l + 1, coarse.rhs.view(), coarse.result, true);
    level.P.matrix->apply(T(1), coarse.result.view(), T(1), z);
    smooth(l, r, z, false);
  }

  PreconditionerOptions options_;
  const ContextPtr host_;
  const PartSource<T> source_;
  const std::int64_t replicated_rows_;
  std::int64_t vectors_ = 0;  // of near_null_space_; 0: there is none
  std::vector<double> near_null_space_;
  const LinearOperator<T>* A_ = nullptr;
  mutable std::mutex mutex_;  // of the vectors of the levels
  std::vector<Level<T>> levels_;
};

}  // namespace

template <class T>
std::unique_ptr<Preconditioner<T>> make_part_amg(const PartOperator<T>& A,
                                                 const PreconditionerOptions& options, ContextPtr host,
                                                 PartSource<T> source, std::int64_t replicated_rows) {
  if (options.setup != AmgSetup::aggregation)
    throw BadArgument("amg with setup classical is not served over several parts; take setup aggregation");
  if (options.smoother == Smoother::gauss_seidel)
    throw BadArgument(
        "amg with smoother gauss-seidel is not served over several parts, whose rows it would have to pass one after "
        "another; take l1-jacobi or chebyshev");
  return std::make_unique<PartAmg<T>>(A, options, std::move(host), std::move(source), replicated_rows);
}
template std::unique_ptr<Preconditioner<float>> make_part_amg<float>(const PartOperator<float>&,
                                                                     const PreconditionerOptions&, ContextPtr,
                                                                     PartSource<float>, std::int64_t);
template std::unique_ptr<Preconditioner<double>> make_part_amg<double>(const PartOperator<double>&,
                                                                       const PreconditionerOptions&,
                                                                       ContextPtr, PartSource<double>,
                                                                       std::int64_t);

}  // namespace protean::detail
