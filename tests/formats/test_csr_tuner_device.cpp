// The kernels of csr after Reguly and Giles on a GPU: right with all parameters that the tuner tries, and
// recorded once it has settled.
#include <gtest/gtest.h>

#include <vector>

#include "core/csr.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "solvers/solver.hpp"
#include "support/reference.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

template <class T>
void products_while_it_tries(const CsrMatrix<T>& csr) {
  const ContextPtr context = Context::device();
  const auto A = make_matrix(find_format("csr"), upload(context, csr), context, {}, "reguly-giles-tuned");
  EXPECT_FALSE(A->recording().allowed);
  const std::vector<T> x = random_vector<T>(csr.cols(), 3), y0 = random_vector<T>(csr.rows(), 4);
  int products = 0;
  for (bool more = true; more && products < 200; ++products) {
    more = !A->recording().allowed;
    const std::vector<T> y = apply_in(*A, T(-0.5), x, T(2), y0);
    ASSERT_TRUE(product_is_right(csr, T(-0.5), x, T(2), y0, y)) << products;
  }
  EXPECT_TRUE(A->recording().allowed);
  EXPECT_GE(products, 3);
  EXPECT_LT(products, 60);
}
