// The functions of cuBLAS and cuSPARSE that this library calls, for an extension that is not linked with them.
//
// A wheel must be importable if neither is installed. So the extension defines these functions itself, which the linker
// prefers to the functions of NVIDIA's libraries. Each calls the real one, which is looked up when it is called for the
// first time. The first call of all is cublasCreate(), at the creation of a device context. It looks for both libraries
// and throws NotAvailable if one is missing. The CUDA runtime is linked in; it looks for the driver in the same way.
#include <cublas_v2.h>
#include <cusparse.h>
#include <dlfcn.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <string>
#include <vector>

#include "common.hpp"
#include "core/error.hpp"

namespace protean::python {
namespace {

#define PROTEAN_AS_TEXT_(x) #x
#define PROTEAN_AS_TEXT(x) PROTEAN_AS_TEXT_(x)
// Their major versions are parts of the names by which the loader finds them.
constexpr const char* cublas_name = "libcublas.so." PROTEAN_AS_TEXT(CUBLAS_VER_MAJOR);
constexpr const char* cusparse_name = "libcusparse.so." PROTEAN_AS_TEXT(CUSPARSE_VER_MAJOR);

struct Library {
  void* handle = nullptr;
  std::string path;
};

// Folders of NVIDIA's packages, which Python finds.
std::vector<std::string>& folders() {
  static auto* const folders = new std::vector<std::string>;
  return *folders;
}
std::mutex& mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::string loaded_from(void* handle) {
  // Any address inside would do for dladdr(); the loader knows the path of a handle.
  char folder[4096];
  return dlinfo(handle, RTLD_DI_ORIGIN, folder) == 0 ? folder : "an unknown folder";
}

// If another library of this process, such as CuPy, has loaded it, that one is taken; else the one of a package; else
// the one that the loader finds (LD_LIBRARY_PATH, its cache).
Library load(const std::string& name) {
  std::string tried;
  const auto open = [&](const std::string& path, int mode) -> void* {
    void* const handle = dlopen(path.c_str(), mode);
    if (!handle && !(mode & RTLD_NOLOAD)) tried += std::string("\n  ") + dlerror();
    return handle;
  };
  void* handle = open(name, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
  for (const std::string& folder : folders())
    if (!handle) handle = open(folder + "/" + name, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) handle = open(name, RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    throw NotAvailable(
        "a GPU needs NVIDIA's " + name +
        ", which could not be loaded: install it by pip install "
        "'protean[cu" PROTEAN_AS_TEXT(CUBLAS_VER_MAJOR) "]', or name the folder of a CUDA toolkit " PROTEAN_AS_TEXT(
            CUBLAS_VER_MAJOR) " in LD_LIBRARY_PATH before Python starts; tried:" +
        tried);
  return {handle, loaded_from(handle) + "/" + name};
}

// Both, or an exception: a context without the second one would fail later, in the middle of a solve. A failure is not
// kept, so that the next call looks again.
struct Libraries {
  Library cublas, cusparse;
};
const Libraries& libraries() {
  static Libraries loaded;
  const std::lock_guard lock(mutex());
  if (!loaded.cublas.handle) {
    const Library cublas = load(cublas_name);
    loaded.cusparse = load(cusparse_name);
    loaded.cublas = cublas;
  }
  return loaded;
}

template <class Function>
Function* found(Library Libraries::*library, const char* name) {
  const Library& from = libraries().*library;
  void* const function = dlsym(from.handle, name);
  if (!function)
    throw NotAvailable(from.path + " has no function " + name +
                       "; it is older than the CUDA toolkit of this build, "
                       "version " +
                       std::to_string(CUDART_VERSION / 1000) + "." +
                       std::to_string(CUDART_VERSION % 1000 / 10) + ": update it");
  return reinterpret_cast<Function*>(function);
}

}  // namespace

void bind_nvidia_libraries(nb::module_& m) {
  m.attr("cuda_major") = CUDART_VERSION / 1000;
  m.def(
      "search_nvidia_libraries",
      [](const std::vector<std::string>& in) {
        const std::lock_guard lock(mutex());
        folders() = in;
      },
      nb::arg("folders"));
  m.def("nvidia_libraries", [] {
    const Libraries& both = libraries();
    return std::vector<std::string>{both.cublas.path, both.cusparse.path};
  });
}

}  // namespace protean::python

// PROTEAN_CALLS(library, function, (parameters), (their names)). The headers declare what is defined here, so that a
// parameter of another type does not compile, or leaves the function of the library unresolved.
#define PROTEAN_CALLS(library, name, parameters, names)                          \
  auto name parameters->decltype(name names) {                                   \
    using namespace protean::python;                                             \
    static auto* const real = found<decltype(name)>(&Libraries::library, #name); \
    return real names;                                                           \
  }

extern "C" {
PROTEAN_CALLS(cublas, cublasCreate_v2, (cublasHandle_t * handle), (handle))
PROTEAN_CALLS(cublas, cublasDestroy_v2, (cublasHandle_t handle), (handle))
PROTEAN_CALLS(cublas, cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
PROTEAN_CALLS(cublas, cublasSetPointerMode_v2, (cublasHandle_t handle, cublasPointerMode_t mode),
              (handle, mode))
PROTEAN_CALLS(cublas, cublasGetStatusString, (cublasStatus_t status), (status))
PROTEAN_CALLS(cublas, cublasDgemv_v2,
              (cublasHandle_t handle, cublasOperation_t op, int m, int n, const double* alpha,
               const double* A, int lda, const double* x, int incx, const double* beta, double* y, int incy),
              (handle, op, m, n, alpha, A, lda, x, incx, beta, y, incy))
PROTEAN_CALLS(cublas, cublasSgemv_v2,
              (cublasHandle_t handle, cublasOperation_t op, int m, int n, const float* alpha, const float* A,
               int lda, const float* x, int incx, const float* beta, float* y, int incy),
              (handle, op, m, n, alpha, A, lda, x, incx, beta, y, incy))
PROTEAN_CALLS(cusparse, cusparseCreate, (cusparseHandle_t * handle), (handle))
PROTEAN_CALLS(cusparse, cusparseDestroy, (cusparseHandle_t handle), (handle))
PROTEAN_CALLS(cusparse, cusparseSetStream, (cusparseHandle_t handle, cudaStream_t stream), (handle, stream))
PROTEAN_CALLS(cusparse, cusparseGetErrorString, (cusparseStatus_t status), (status))
PROTEAN_CALLS(cusparse, cusparseCreateDnVec,
              (cusparseDnVecDescr_t * vector, int64_t size, void* values, cudaDataType type),
              (vector, size, values, type))
PROTEAN_CALLS(cusparse, cusparseDestroyDnVec, (cusparseConstDnVecDescr_t vector), (vector))
PROTEAN_CALLS(cusparse, cusparseDnVecSetValues, (cusparseDnVecDescr_t vector, void* values), (vector, values))
PROTEAN_CALLS(cusparse, cusparseCreateCsr,
              (cusparseSpMatDescr_t * A, int64_t rows, int64_t cols, int64_t nonzeros, void* offsets,
               void* columns, void* values, cusparseIndexType_t offset_type, cusparseIndexType_t column_type,
               cusparseIndexBase_t base, cudaDataType type),
              (A, rows, cols, nonzeros, offsets, columns, values, offset_type, column_type, base, type))
PROTEAN_CALLS(cusparse, cusparseCreateCsc,
              (cusparseSpMatDescr_t * A, int64_t rows, int64_t cols, int64_t nonzeros, void* offsets,
               void* rows_of, void* values, cusparseIndexType_t offset_type, cusparseIndexType_t row_type,
               cusparseIndexBase_t base, cudaDataType type),
              (A, rows, cols, nonzeros, offsets, rows_of, values, offset_type, row_type, base, type))
PROTEAN_CALLS(cusparse, cusparseCreateBsr,
              (cusparseSpMatDescr_t * A, int64_t rows, int64_t cols, int64_t blocks, int64_t block_rows,
               int64_t block_cols, void* offsets, void* columns, void* values,
               cusparseIndexType_t offset_type, cusparseIndexType_t column_type, cusparseIndexBase_t base,
               cudaDataType type, cusparseOrder_t order),
              (A, rows, cols, blocks, block_rows, block_cols, offsets, columns, values, offset_type,
               column_type, base, type, order))
PROTEAN_CALLS(cusparse, cusparseCreateCoo,
              (cusparseSpMatDescr_t * A, int64_t rows, int64_t cols, int64_t nonzeros, void* rows_of,
               void* columns, void* values, cusparseIndexType_t index_type, cusparseIndexBase_t base,
               cudaDataType type),
              (A, rows, cols, nonzeros, rows_of, columns, values, index_type, base, type))
PROTEAN_CALLS(cusparse, cusparseCreateSlicedEll,
              (cusparseSpMatDescr_t * A, int64_t rows, int64_t cols, int64_t nonzeros, int64_t size,
               int64_t slice, void* offsets, void* columns, void* values, cusparseIndexType_t offset_type,
               cusparseIndexType_t column_type, cusparseIndexBase_t base, cudaDataType type),
              (A, rows, cols, nonzeros, size, slice, offsets, columns, values, offset_type, column_type, base,
               type))
PROTEAN_CALLS(cusparse, cusparseDestroySpMat, (cusparseConstSpMatDescr_t A), (A))
PROTEAN_CALLS(cusparse, cusparseSpMatGetSize,
              (cusparseConstSpMatDescr_t A, int64_t* rows, int64_t* cols, int64_t* nonzeros),
              (A, rows, cols, nonzeros))
PROTEAN_CALLS(cusparse, cusparseSpMatSetValues, (cusparseSpMatDescr_t A, void* values), (A, values))
PROTEAN_CALLS(cusparse, cusparseSpMatSetAttribute,
              (cusparseSpMatDescr_t A, cusparseSpMatAttribute_t attribute, void* data, size_t size),
              (A, attribute, data, size))
PROTEAN_CALLS(cusparse, cusparseSpMV_bufferSize,
              (cusparseHandle_t handle, cusparseOperation_t op, const void* alpha,
               cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, const void* beta,
               cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t algorithm, size_t* size),
              (handle, op, alpha, A, x, beta, y, type, algorithm, size))
PROTEAN_CALLS(cusparse, cusparseSpMV_preprocess,
              (cusparseHandle_t handle, cusparseOperation_t op, const void* alpha,
               cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, const void* beta,
               cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t algorithm, void* buffer),
              (handle, op, alpha, A, x, beta, y, type, algorithm, buffer))
PROTEAN_CALLS(cusparse, cusparseSpMV,
              (cusparseHandle_t handle, cusparseOperation_t op, const void* alpha,
               cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, const void* beta,
               cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t algorithm, void* buffer),
              (handle, op, alpha, A, x, beta, y, type, algorithm, buffer))
PROTEAN_CALLS(cusparse, cusparseSpSV_createDescr, (cusparseSpSVDescr_t * solve), (solve))
PROTEAN_CALLS(cusparse, cusparseSpSV_destroyDescr, (cusparseSpSVDescr_t solve), (solve))
PROTEAN_CALLS(cusparse, cusparseSpSV_bufferSize,
              (cusparseHandle_t handle, cusparseOperation_t op, const void* alpha,
               cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
               cudaDataType type, cusparseSpSVAlg_t algorithm, cusparseSpSVDescr_t solve, size_t* size),
              (handle, op, alpha, A, x, y, type, algorithm, solve, size))
PROTEAN_CALLS(cusparse, cusparseSpSV_analysis,
              (cusparseHandle_t handle, cusparseOperation_t op, const void* alpha,
               cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
               cudaDataType type, cusparseSpSVAlg_t algorithm, cusparseSpSVDescr_t solve, void* buffer),
              (handle, op, alpha, A, x, y, type, algorithm, solve, buffer))
PROTEAN_CALLS(cusparse, cusparseSpSV_solve,
              (cusparseHandle_t handle, cusparseOperation_t op, const void* alpha,
               cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
               cudaDataType type, cusparseSpSVAlg_t algorithm, cusparseSpSVDescr_t solve),
              (handle, op, alpha, A, x, y, type, algorithm, solve))
PROTEAN_CALLS(cusparse, cusparseSpSV_updateMatrix,
              (cusparseHandle_t handle, cusparseSpSVDescr_t solve, void* values, cusparseSpSVUpdate_t part),
              (handle, solve, values, part))
}  // extern "C"
