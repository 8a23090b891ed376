#include "interfaces/petsc/mat_types.hpp"

#include <petsc/private/matimpl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/settings.hpp"

namespace protean_types {
namespace {

constexpr char settings_key[] = "protean_settings";
constexpr char seq_from[] = "MatConvert_seqaij_seqaijprotean_C",
               seq_back[] = "MatConvert_seqaijprotean_seqaij_C";
constexpr char mpi_from[] = "MatConvert_mpiaij_mpiaijprotean_C",
               mpi_back[] = "MatConvert_mpiaijprotean_mpiaij_C";

// The operations of PETSc's own types, which ours call and which a matrix has again when it is converted back.
struct Inherited {
  _MatOps ops = {};
  bool known = false;
};
Inherited seq_inherited, mpi_inherited;

bool is_type(Mat A, const char* type) {
  PetscBool is = PETSC_FALSE;
  must(PetscObjectTypeCompare(object(A), type, &is));
  return is == PETSC_TRUE;
}

// What the options of A say, which are read when A is set from options, or else with the first product.
PetscErrorCode delete_settings(void* settings) {
  delete static_cast<std::shared_ptr<const Settings>*>(settings);
  return PetscErrorCode(0);
}
void keep_settings(Mat A, std::shared_ptr<const Settings> settings) {
  PetscContainer container = nullptr;
  must(PetscContainerCreate(PETSC_COMM_SELF, &container));
  auto kept = std::make_unique<std::shared_ptr<const Settings>>(std::move(settings));
  must(PetscContainerSetPointer(container, kept.get()));
  must(PetscContainerSetUserDestroy(container, delete_settings));
  kept.release();
  must(PetscObjectCompose(object(A), settings_key, object(container)));
  must(PetscContainerDestroy(&container));
}
std::shared_ptr<const Settings> settings_of(Mat A) {
  PetscObject found = nullptr;
  must(PetscObjectQuery(object(A), settings_key, &found));
  if (found) {
    void* kept = nullptr;
    must(PetscContainerGetPointer(reinterpret_cast<PetscContainer>(found), &kept));
    return *static_cast<std::shared_ptr<const Settings>*>(kept);
  }
  auto settings = std::make_shared<const Settings>(read_settings(A));
  keep_settings(A, settings);
  return settings;
}

template <class Items>
PetscErrorCode list_options(Items PetscOptionsObject) {
  PetscOptionsHeadBegin(PetscOptionsObject, "Protean matrix options");
  for (const Option& option : all_options) {
    char text[1024] = "";
    PetscCall(PetscOptionsString(option.name, option.text, "MatSetFromOptions", option.standard, text,
                                 sizeof text, nullptr));
  }
  PetscOptionsHeadEnd();
  return PetscErrorCode(0);
}

// ---- one rank

// A matrix without settings from an outer matrix has the settings of its own options.
Block& ready_block(Mat A) {
  Block& block = block_of(A);
  if (!block.settings()) block.configure(settings_of(A), Role::whole);
  return block;
}

PetscErrorCode seq_mult(Mat A, Vec x, Vec y) {
  return guarded(A, [&] { ready_block(A).product(A, x, y, false); });
}
PetscErrorCode seq_mult_add(Mat A, Vec x, Vec y, Vec z) {
  return guarded(A, [&] {
    if (y != z) must(VecCopy(y, z));
    ready_block(A).product(A, x, z, true);
  });
}
PetscErrorCode seq_duplicate(Mat A, MatDuplicateOption option, Mat* B) {
  return guarded(A, [&] {
    must(seq_inherited.ops.duplicate(A, option, B));
    const Block* const block = found_block(A);
    if (block && block->settings()) block_of(*B).configure(block->settings(), block->role());
  });
}
PetscErrorCode seq_destroy(Mat A) {
  PetscCall(guarded(A, [&] {
    drop_block(A);
    must(PetscObjectComposeFunction(object(A), seq_from, nullptr));
    must(PetscObjectComposeFunction(object(A), seq_back, nullptr));
  }));
  return seq_inherited.ops.destroy(A);
}
template <class Items>
PetscErrorCode seq_set_from_options(Mat A, Items items) {
  if (seq_inherited.ops.setfromoptions) PetscCall(seq_inherited.ops.setfromoptions(A, items));
  PetscCall(list_options(items));
  return guarded(A, [&] {
    keep_settings(A, std::make_shared<const Settings>(read_settings(A)));
    if (Block* const block = found_block(A)) block->configure(settings_of(A), Role::whole);
  });
}

// A short view, which -ksp_view and -mat_view ::ascii_info ask for, or one with details.
bool wants_info(PetscViewer viewer) {
  PetscBool text = PETSC_FALSE;
  PetscViewerFormat format = PETSC_VIEWER_DEFAULT;
  must(PetscObjectTypeCompare(object(viewer), PETSCVIEWERASCII, &text));
  must(PetscViewerGetFormat(viewer, &format));
  return text && (format == PETSC_VIEWER_ASCII_INFO || format == PETSC_VIEWER_ASCII_INFO_DETAIL);
}

bool wants_details(PetscViewer viewer) {
  PetscBool text = PETSC_FALSE;
  PetscViewerFormat format = PETSC_VIEWER_DEFAULT;
  must(PetscObjectTypeCompare(object(viewer), PETSCVIEWERASCII, &text));
  must(PetscViewerGetFormat(viewer, &format));
  return text && (format == PETSC_VIEWER_ASCII_INFO_DETAIL);
}

// "sell-packed, kernel native"
std::string taken_by(const Block& block) {
  if (!block.current()) return block.begun() ? "none, no entries" : "none before the first product";
  const BlockState state = block.state();
  return state.format + ", kernel " + state.kernel;
}

// What was asked for, and which format each rank's blocks have taken. A view with details shows that for each block.
// Collective.
void show_formats(Mat A, PetscViewer viewer, const std::vector<const Block*>& blocks) {
  const std::shared_ptr<const Settings> settings = settings_of(A);
  const MPI_Comm comm = PetscObjectComm(object(A));
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &ranks);
  must(PetscViewerASCIIPrintf(viewer, "  Protean: asked for %s%s\n", settings->format.c_str(),
                              settings->policy ? ", policy" : ""));
  if (wants_details(viewer)) return;
  for (const Block* const block : blocks) {
    constexpr int length = 96;
    char mine[length] = "";
    must(PetscStrncpy(mine, taken_by(*block).c_str(), sizeof mine));
    std::vector<char> all(static_cast<std::size_t>(rank == 0 ? ranks : 0) * length);
    long long bytes = block->current() ? static_cast<long long>(block->state().bytes) : 0, sum = 0;
    MPI_Gather(mine, length, MPI_CHAR, all.data(), length, MPI_CHAR, 0, comm);
    MPI_Reduce(&bytes, &sum, 1, MPI_LONG_LONG, MPI_SUM, 0, comm);
    std::map<std::string, int> counts;
    for (std::size_t k = 0; k < all.size(); k += length) ++counts[all.data() + k];
    std::string formats;
    for (const auto& [name, count] : counts)
      formats += (formats.empty() ? "" : "; ") + name +
                 (ranks > 1 ? " (" + std::to_string(count) + (count == 1 ? " rank)" : " ranks)") : "");
    must(PetscViewerASCIIPrintf(viewer, "  Protean, %s: format %s; %lld bytes\n", name_of(block->role()),
                                formats.c_str(), sum));
  }
}

PetscErrorCode seq_view(Mat A, PetscViewer viewer) {
  if (seq_inherited.ops.view) PetscCall(seq_inherited.ops.view(A, viewer));
  return guarded(A, [&] {
    // Blocks of several ranks are viewed by one of them, and have been described by their matrix.
    if (const Block& block = ready_block(A); block.role() == Role::whole && wants_info(viewer))
      show_formats(A, viewer, {&block});
    if (!wants_details(viewer)) return;
    for (const std::string& line : ready_block(A).description())
      must(PetscViewerASCIIPrintf(viewer, "Protean, %s: %s\n", name_of(ready_block(A).role()), line.c_str()));
  });
}

PetscErrorCode seq_to_aij(Mat A, MatType, MatReuse reuse, Mat* to) {
  return guarded(A, [&] {
    if (reuse == MAT_REUSE_MATRIX) return must(MatCopy(A, *to, SAME_NONZERO_PATTERN));
    Mat B = A;
    if (reuse == MAT_INITIAL_MATRIX) must(MatDuplicate(A, MAT_COPY_VALUES, &B));
    drop_block(B);
    must(PetscObjectCompose(object(B), settings_key, nullptr));
    B->ops->mult = seq_inherited.ops.mult, B->ops->multadd = seq_inherited.ops.multadd;
    B->ops->duplicate = seq_inherited.ops.duplicate, B->ops->destroy = seq_inherited.ops.destroy;
    B->ops->view = seq_inherited.ops.view, B->ops->setfromoptions = seq_inherited.ops.setfromoptions;
    must(PetscObjectComposeFunction(object(B), seq_from, nullptr));
    must(PetscObjectComposeFunction(object(B), seq_back, nullptr));
    must(PetscObjectChangeTypeName(object(B), MATSEQAIJ));
    *to = B;
  });
}
PetscErrorCode seq_from_aij(Mat A, MatType, MatReuse reuse, Mat* to) {
  return guarded(A, [&] {
    if (reuse == MAT_REUSE_MATRIX) return must(MatCopy(A, *to, SAME_NONZERO_PATTERN));
    Mat B = A;
    if (reuse == MAT_INITIAL_MATRIX) must(MatDuplicate(A, MAT_COPY_VALUES, &B));
    if (!is_type(B, seq_type)) {
      // Another type that is derived from seqaij, such as seqaijperm.
      if (!is_type(B, MATSEQAIJ)) must(MatConvert(B, MATSEQAIJ, MAT_INPLACE_MATRIX, &B));
      if (!seq_inherited.known) seq_inherited = {*B->ops, true};
      B->ops->mult = seq_mult, B->ops->multadd = seq_mult_add;
      B->ops->duplicate = seq_duplicate, B->ops->destroy = seq_destroy;
      B->ops->view = seq_view, B->ops->setfromoptions = seq_set_from_options;
      must(PetscObjectComposeFunction(object(B), seq_from, seq_from_aij));
      must(PetscObjectComposeFunction(object(B), seq_back, seq_to_aij));
      must(PetscObjectChangeTypeName(object(B), seq_type));
    }
    *to = B;
  });
}
PetscErrorCode seq_create(Mat A) {
  PetscCall(MatSetType(A, MATSEQAIJ));
  return seq_from_aij(A, seq_type, MAT_INPLACE_MATRIX, &A);
}

// ---- several ranks

// PETSc makes new blocks when the pattern changes, and makes some of them of type seqaij.
void make_blocks_ours(Mat A) {
  Mat blocks[2] = {nullptr, nullptr};
  must(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], nullptr));
  if (!blocks[0] || !blocks[1]) return;
  const std::shared_ptr<const Settings> settings = settings_of(A);
  for (int k = 0; k < 2; ++k) {
    Mat block = blocks[k];
    if (block->ops->mult != seq_mult) must(seq_from_aij(block, seq_type, MAT_INPLACE_MATRIX, &block));
    block_of(block).configure(settings, k == 0 ? Role::diagonal : Role::off_diagonal);
  }
}

// Before a product communicates, so that a conversion that fails leaves nothing half sent.
PetscErrorCode bring_blocks_up_to_date(Mat A) {
  Mat blocks[2] = {nullptr, nullptr};
  PetscCall(guarded(A, [&] {
    make_blocks_ours(A);
    must(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], nullptr));
  }));
  for (Mat each : blocks)
    if (each) PetscCall(guarded(each, [&] { block_of(each).bring_up_to_date(each); }));
  return PetscErrorCode(0);
}

PetscErrorCode mpi_mult(Mat A, Vec x, Vec y) {
  PetscCall(bring_blocks_up_to_date(A));
  return mpi_inherited.ops.mult(A, x, y);
}
PetscErrorCode mpi_mult_add(Mat A, Vec x, Vec y, Vec z) {
  PetscCall(bring_blocks_up_to_date(A));
  return mpi_inherited.ops.multadd(A, x, y, z);
}
PetscErrorCode mpi_assembly_end(Mat A, MatAssemblyType mode) {
  PetscCall(mpi_inherited.ops.assemblyend(A, mode));
  return guarded(A, [&] { make_blocks_ours(A); });
}
PetscErrorCode mpi_diagonal_block(Mat A, Mat* block) {
  PetscCall(guarded(A, [&] { make_blocks_ours(A); }));
  return mpi_inherited.ops.getdiagonalblock(A, block);
}
PetscErrorCode mpi_duplicate(Mat A, MatDuplicateOption option, Mat* B) {
  return guarded(A, [&] {
    must(mpi_inherited.ops.duplicate(A, option, B));
    keep_settings(*B, settings_of(A));
  });
}
PetscErrorCode mpi_destroy(Mat A) {
  PetscCall(guarded(A, [&] {
    must(PetscObjectComposeFunction(object(A), mpi_from, nullptr));
    must(PetscObjectComposeFunction(object(A), mpi_back, nullptr));
  }));
  return mpi_inherited.ops.destroy(A);
}
template <class Items>
PetscErrorCode mpi_set_from_options(Mat A, Items items) {
  if (mpi_inherited.ops.setfromoptions) PetscCall(mpi_inherited.ops.setfromoptions(A, items));
  PetscCall(list_options(items));
  return guarded(A, [&] { keep_settings(A, std::make_shared<const Settings>(read_settings(A))); });
}
PetscErrorCode mpi_view(Mat A, PetscViewer viewer) {
  if (mpi_inherited.ops.view) PetscCall(mpi_inherited.ops.view(A, viewer));
  return guarded(A, [&] {
    if (!wants_info(viewer)) return;
    int rank = 0;
    MPI_Comm_rank(PetscObjectComm(object(A)), &rank);
    make_blocks_ours(A);
    Mat blocks[2] = {nullptr, nullptr};
    must(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], nullptr));
    std::vector<const Block*> ours;
    for (Mat each : blocks)
      if (each) ours.push_back(&block_of(each));
    show_formats(A, viewer, ours);
    if (!wants_details(viewer)) return;
    must(PetscViewerASCIIPushSynchronized(viewer));
    for (Mat each : blocks) {
      if (!each) continue;
      Block& block = block_of(each);
      for (const std::string& line : block.description())
        must(PetscViewerASCIISynchronizedPrintf(viewer, "[%d] Protean, %s of %d x %d: %s\n", rank,
                                                name_of(block.role()), static_cast<int>(each->rmap->n),
                                                static_cast<int>(each->cmap->n), line.c_str()));
    }
    must(PetscViewerFlush(viewer));
    must(PetscViewerASCIIPopSynchronized(viewer));
  });
}

PetscErrorCode mpi_to_aij(Mat A, MatType, MatReuse reuse, Mat* to) {
  return guarded(A, [&] {
    if (reuse == MAT_REUSE_MATRIX) return must(MatCopy(A, *to, SAME_NONZERO_PATTERN));
    Mat B = A;
    if (reuse == MAT_INITIAL_MATRIX) must(MatDuplicate(A, MAT_COPY_VALUES, &B));
    Mat blocks[2] = {nullptr, nullptr};
    must(MatMPIAIJGetSeqAIJ(B, &blocks[0], &blocks[1], nullptr));
    for (Mat& block : blocks)
      if (block && block->ops->mult == seq_mult)
        must(seq_to_aij(block, MATSEQAIJ, MAT_INPLACE_MATRIX, &block));
    must(PetscObjectCompose(object(B), settings_key, nullptr));
    B->ops->mult = mpi_inherited.ops.mult, B->ops->multadd = mpi_inherited.ops.multadd;
    B->ops->assemblyend = mpi_inherited.ops.assemblyend;
    B->ops->getdiagonalblock = mpi_inherited.ops.getdiagonalblock;
    B->ops->duplicate = mpi_inherited.ops.duplicate, B->ops->destroy = mpi_inherited.ops.destroy;
    B->ops->view = mpi_inherited.ops.view, B->ops->setfromoptions = mpi_inherited.ops.setfromoptions;
    must(PetscObjectComposeFunction(object(B), mpi_from, nullptr));
    must(PetscObjectComposeFunction(object(B), mpi_back, nullptr));
    must(PetscObjectChangeTypeName(object(B), MATMPIAIJ));
    *to = B;
  });
}
PetscErrorCode mpi_from_aij(Mat A, MatType, MatReuse reuse, Mat* to) {
  return guarded(A, [&] {
    if (reuse == MAT_REUSE_MATRIX) return must(MatCopy(A, *to, SAME_NONZERO_PATTERN));
    Mat B = A;
    if (reuse == MAT_INITIAL_MATRIX) must(MatDuplicate(A, MAT_COPY_VALUES, &B));
    if (!is_type(B, mpi_type)) {
      if (!is_type(B, MATMPIAIJ)) must(MatConvert(B, MATMPIAIJ, MAT_INPLACE_MATRIX, &B));
      if (!mpi_inherited.known) mpi_inherited = {*B->ops, true};
      B->ops->mult = mpi_mult, B->ops->multadd = mpi_mult_add, B->ops->assemblyend = mpi_assembly_end;
      B->ops->getdiagonalblock = mpi_diagonal_block;
      B->ops->duplicate = mpi_duplicate, B->ops->destroy = mpi_destroy;
      B->ops->view = mpi_view, B->ops->setfromoptions = mpi_set_from_options;
      must(PetscObjectComposeFunction(object(B), mpi_from, mpi_from_aij));
      must(PetscObjectComposeFunction(object(B), mpi_back, mpi_to_aij));
      must(PetscObjectChangeTypeName(object(B), mpi_type));
    }
    *to = B;
  });
}
PetscErrorCode mpi_create(Mat A) {
  PetscCall(MatSetType(A, MATMPIAIJ));
  return mpi_from_aij(A, mpi_type, MAT_INPLACE_MATRIX, &A);
}

}  // namespace

PetscErrorCode convert_blocks(Mat A) {
  return guarded(A, [&] {
    if (is_type(A, mpi_type)) return must(bring_blocks_up_to_date(A));
    if (is_type(A, seq_type)) ready_block(A).bring_up_to_date(A);
  });
}

PetscErrorCode register_matrix_types() {
  PetscCall(MatRegister(seq_type, seq_create));
  PetscCall(MatRegister(mpi_type, mpi_create));
  PetscCall(MatRegisterRootName(root_type, seq_type, mpi_type));
  PetscCall(MatSeqAIJRegister(seq_type, seq_from_aij));
  return PetscErrorCode(0);
}

}  // namespace protean_types
