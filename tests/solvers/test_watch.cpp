// Debug mode for the caller's arrays: an array that was freed or changed too early is reported by name,
// before anything is computed with it.
#include "core/watch.hpp"

#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "operators/matrix/matrix.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

// Memory whose pages are unmapped when it is freed, so that a plain read would end the process.
template <class T>
class Pages {
 public:
  explicit Pages(std::vector<T> values) : size_(values.size() * sizeof(T)) {
    data_ = static_cast<T*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(data_, values.data(), size_);
  }
  ~Pages() { free(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void free() {
    if (data_) munmap(data_, size_);
    data_ = nullptr;
  }
  T* data() { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// A matrix in the memory of a program that frees and overwrites its arrays.
struct Careless {
  CsrMatrix<double> source = generate(test_context(), "poisson-2d", {{"n", 30}});
  std::int64_t n = source.rows(), nonzeros = source.nonzeros();
  Pages<std::int32_t> row_ptr{{source.pattern.row_ptr.p32, source.pattern.row_ptr.p32 + n + 1}};
  Pages<std::int32_t> col{{source.pattern.col, source.pattern.col + nonzeros}};
  Pages<double> values{{source.values, source.values + nonzeros}};
  CsrMatrix<double> view() { return csr_view(n, n, row_ptr.data(), col.data(), values.data()); }
  CsrMatrix<double> seen() { return watched(test_context(), view()); }
};

SolveReport solve(const LinearOperator<double>& A, SolveObserver* observer = nullptr) {
  std::vector<double> b(static_cast<std::size_t>(A.rows()), 1.0), x(b.size(), 0.0);
  return make_solver<double>("cg")->solve(A, {b.data(), A.rows()}, {x.data(), A.rows()}, nullptr, observer);
}

TEST(Watch, NothingIsSaidOfArraysThatAreKept) {
  Careless program;
  const auto seen = program.seen();
  EXPECT_FALSE(program.view().watch) << "a matrix is watched only after watched()";
  for (const FormatEntry* entry : catalogue()) {
    if (entry->kernels.empty()) continue;
    FormatParams params;  // any fill
    for (const ParamDoc& doc : settable_params(*entry))
      if (doc.name == "max_fill") params.set("max_fill", doc.largest);
    const auto A = make_matrix(*entry, seen, test_context(), params);
    EXPECT_TRUE(solve(*A).converged()) << entry->id;
  }
}

TEST(Watch, FreedArraysAreNamedBeforeASolveAndNothingCrashes) {
  const std::pair<const char*, std::function<void(Careless&)>> freed[] = {
      {"array row_ptr", [](Careless& p) { p.row_ptr.free(); }},
      {"array col", [](Careless& p) { p.col.free(); }},
      {"array values", [](Careless& p) { p.values.free(); }}};
  for (const auto& [name, free] : freed) {
    Careless program;
    const auto seen = program.seen();
    const auto A = make_matrix(find_format("csr"), seen, test_context());
    EXPECT_TRUE(solve(*A).converged());
    free(program);
    const std::string text = message_of<ArraysChanged>([&] { (void)solve(*A); });
    EXPECT_TRUE(has(text, name)) << text;
    EXPECT_TRUE(has(text, "freed")) << text;
    // Another format is not built from it either.
    EXPECT_TRUE(
        has(message_of<ArraysChanged>([&] { (void)make_matrix(find_format("ell"), seen, test_context()); }),
            name));
  }
}

TEST(Watch, ChangedArraysAreNamedWithThePlace) {
  Careless program;
  const auto seen = program.seen();
  const auto A = make_matrix(find_format("csr"), seen, test_context());
  program.values.data()[1000] += 1e-9;
  std::string text = message_of<ArraysChanged>([&] { (void)solve(*A); });
  EXPECT_TRUE(has(text, "array values")) << text;
  EXPECT_TRUE(has(text, "entries 512 to 1023 of 4380")) << text;
  EXPECT_TRUE(has(text, "update_values()")) << text;
  program.values.data()[1000] = program.source.values[1000];
  EXPECT_TRUE(solve(*A).converged()) << "the old value is back";
  program.col.data()[5] += 1;
  text = message_of<ArraysChanged>([&] { (void)solve(*A); });
  EXPECT_TRUE(has(text, "array col") && has(text, "entries 0 to 1023")) << text;
}

TEST(Watch, NewValuesAreToldAndAnotherPatternIsNot) {
  for (const char* format : {"csr", "sell-c-sigma"}) {
    SCOPED_TRACE(format);
    Careless program;
    const auto seen = program.seen();
    const auto A = make_matrix(find_format(format), seen, test_context());
    for (std::int64_t i = 0; i < program.nonzeros; ++i) program.values.data()[i] *= 2;
    A->update_values(seen);
    EXPECT_TRUE(solve(*A).converged());
    program.values.data()[7] *= 2;
    EXPECT_EQ(message_of<ArraysChanged>([&] { (void)solve(*A); }) == "", format != std::string("csr"))
        << "formats with copies do not depend on the arrays";
    A->update_values(seen);
    // New values in other arrays.
    std::vector<double> others(program.source.values, program.source.values + program.nonzeros);
    A->update_values(with_values(seen, others.data()));
    EXPECT_TRUE(solve(*A).converged());
    others[3] += 1;
    EXPECT_EQ(message_of<ArraysChanged>([&] { (void)solve(*A); }) == "", format != std::string("csr"));
    // New values with a changed pattern.
    program.col.data()[11] += 1;
    const Revision before = A->revision();
    EXPECT_TRUE(has(message_of<ArraysChanged>([&] { A->update_values(seen); }), "array col"));
    EXPECT_EQ(A->revision(), before);
  }
}

TEST(Watch, AFormatThatCopiedNeedsTheArraysNoMore) {
  Careless program;
  const auto A = make_matrix(find_format("sell-packed"), program.seen(), test_context());
  program.row_ptr.free(), program.col.free(), program.values.free();
  EXPECT_TRUE(solve(*A).converged());
}

TEST(Watch, AnOperatorThatChangesItsFormatNeedsThemAllTheTime) {
  Careless program;
  const auto seen = program.seen();
  Matrix<double> A(seen, make_matrix(find_format("sell-packed"), seen, test_context()));
  EXPECT_TRUE(solve(A).converged());
  program.values.data()[0] += 1;
  EXPECT_TRUE(has(message_of<ArraysChanged>([&] { (void)solve(A); }), "array values"));
  EXPECT_FALSE(A.switch_to({.entry = &find_format("ell")}, 0));
  EXPECT_TRUE(has(A.failures().back().why, "array values")) << A.failures().back().why;
  A.update_values(seen);
  EXPECT_TRUE(solve(A).converged());
  EXPECT_TRUE(A.switch_to({.entry = &find_format("ell")}, 0)) << A.failures().back().why;
  program.values.free();
  A.prepare({.entry = &find_format("csr")});
  (void)A.wait_prepared();
  EXPECT_FALSE(A.adopt_prepared(0));
  EXPECT_TRUE(has(A.failures().back().why, "freed")) << A.failures().back().why;
}

TEST(Watch, OneBasedViewsAndFloats) {
  Careless program;
  std::vector<std::int64_t> row_ptr;
  std::vector<std::int32_t> col;
  for (std::int64_t i = 0; i <= program.n; ++i) row_ptr.push_back(program.source.pattern.row_ptr[i] + 1);
  for (std::int64_t k = 0; k < program.nonzeros; ++k) col.push_back(program.source.pattern.col[k] + 1);
  std::vector<float> values(program.source.values, program.source.values + program.nonzeros);
  const auto seen =
      watched(test_context(), csr_view(test_context(), program.n, program.n, program.nonzeros, row_ptr.data(),
                                       col.data(), values.data(), IndexBase::one));
  check_arrays(seen);
  col[4] = 1, row_ptr[2] = 1;  // the matrix has copies of these
  check_arrays(seen);
  values[4] = 0.5f;
  EXPECT_TRUE(has(message_of<ArraysChanged>([&] { check_arrays(seen); }), "array values"));
}

TEST(Watch, EmptyMatricesAndOtherSpaces) {
  const std::int32_t zero[] = {0};
  check_arrays(watched(test_context(), csr_view<double>(0, 0, zero, nullptr, nullptr)));
  auto elsewhere = Careless().source;
  elsewhere.pattern.space = Space::device;
  EXPECT_THROW((void)watched(test_context(), elsewhere), WrongSpace);
}

TEST(Watch, OnADevice) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  Careless program;
  const CsrMatrix<double> there = upload(device, program.source);
  const auto seen = watched(device, there);
  const auto A = make_matrix(find_format("csr"), seen, device);
  const Placed<double> b(device, std::vector<double>(static_cast<std::size_t>(program.n), 1.0));
  Placed<double> x(device, std::vector<double>(static_cast<std::size_t>(program.n), 0.0));
  const auto cg = make_solver<double>("cg");
  EXPECT_TRUE(cg->solve(*A, b.read(), x.view()).converged());
  double other = 7;
  copy<double>(*device, {&other, 1}, VectorView<double>{const_cast<double*>(there.values) + 600, 1});
  EXPECT_TRUE(has(message_of<ArraysChanged>([&] { (void)cg->solve(*A, b.read(), x.view()); }),
                  "entries 512 to 1023"));
}

TEST(Watch, OfTheCInterface) {
  Careless program;
  protean_context* context = nullptr;
  protean_matrix* matrix = nullptr;
  protean_solver* solver = nullptr;
  ASSERT_EQ(protean_context_host(1, &context), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_csr(context, program.n, program.n, program.nonzeros, program.row_ptr.data(),
                               program.col.data(), program.values.data(), 0, &matrix),
            PROTEAN_OK);
  // Format csr, which computes with the arrays of the program; others copy them.
  ASSERT_EQ(protean_matrix_set_format(matrix, "csr", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_watch(matrix), PROTEAN_OK);
  ASSERT_EQ(protean_solver_create("cg", "jacobi", &solver), PROTEAN_OK);
  std::vector<double> b(static_cast<std::size_t>(program.n), 1.0), x(b.size(), 0.0);
  EXPECT_EQ(protean_solve(solver, matrix, b.data(), x.data()), PROTEAN_OK);
  program.values.data()[0] = 5;
  EXPECT_EQ(protean_solve(solver, matrix, b.data(), x.data()), PROTEAN_ARRAYS_CHANGED);
  EXPECT_TRUE(has(protean_last_error(), "array values")) << protean_last_error();
  EXPECT_EQ(protean_matrix_update_values(matrix, program.values.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, matrix, b.data(), x.data()), PROTEAN_OK);
  program.col.free();
  EXPECT_EQ(protean_solve(solver, matrix, b.data(), x.data()), PROTEAN_ARRAYS_CHANGED);
  EXPECT_TRUE(has(protean_last_error(), "freed")) << protean_last_error();
  EXPECT_EQ(protean_matrix_set_format(matrix, "ell", nullptr, nullptr), PROTEAN_ARRAYS_CHANGED);
  EXPECT_STREQ(protean_status_name(PROTEAN_ARRAYS_CHANGED), "arrays-changed");
  protean_solver_free(solver);
  protean_matrix_free(matrix);
  protean_context_free(context);
}

}  // namespace
}  // namespace protean::test
