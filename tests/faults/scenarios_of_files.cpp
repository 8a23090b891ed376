// Reading and writing files while memory runs out: the old file or the new one stays, and nothing else.
#include <memory>

#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/io/vector_file.hpp"
#include "faults/scenarios.hpp"
#include "gtest/gtest.h"
#include "support/folder.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> read(const std::string& path) { return read_matrix(test_context(), path); }
void write(const std::string& path) {
  if (path.ends_with(".pbin")) return write_pbin(*test_context(), path, small_matrix());
  write_matrix_market(*test_context(), path, small_matrix());
}
std::vector<double> values_of(const CsrMatrix<double>& csr) {
  return {csr.values, csr.values + csr.nonzeros()};
}

}  // namespace

std::vector<Scenario> file_scenarios() {
  std::vector<Scenario> all;
  for (const std::string name : {"A.mtx", "A.mtx.gz", "A.mtx.xz", "A.pbin"}) {
    all.push_back(
        {"read " + name, test_context(), [=] {
           const auto folder = std::make_shared<Folder>();
           write(*folder / name);
           return Trial{[=] { (void)read(*folder / name); }, [=] { return values_of(read(*folder / name)); }};
         }});
    all.push_back({"write " + name, test_context(), [=] {
                     const auto folder = std::make_shared<Folder>();
                     write_file(*folder / name, "the old file");
                     const auto call = [=] {
                       try {
                         write(*folder / name);
                       } catch (...) {
                         EXPECT_EQ(slurp(*folder / name), "the old file");
                         EXPECT_EQ(folder->files(), 1U);
                         throw;
                       }
                     };
                     return Trial{call, [=] {
                                    call();
                                    EXPECT_EQ(folder->files(), 1U);
                                    return values_of(read(*folder / name));
                                  }};
                   }});
  }
  for (const std::string name : {"x.mtx", "x.mtx.gz", "x.npy"}) {
    all.push_back({"read " + name, test_context(), [=] {
                     const auto folder = std::make_shared<Folder>();
                     const std::vector<double> x = sample_vector<double>(50, 3);
                     write_vector(*folder / name, {x.data(), 50, Space::host});
                     return Trial{[=] { (void)read_vector(test_context(), *folder / name); },
                                  [=] {
                                    const Vector<double> v = read_vector(test_context(), *folder / name);
                                    return std::vector<double>(v.data(), v.data() + v.size());
                                  }};
                   }});
    all.push_back({"write " + name, test_context(), [=] {
                     const auto folder = std::make_shared<Folder>();
                     const auto x = std::make_shared<std::vector<double>>(sample_vector<double>(50, 3));
                     write_file(*folder / name, "the old file");
                     const auto call = [=] {
                       try {
                         write_vector(*folder / name, {x->data(), 50, Space::host});
                       } catch (...) {
                         EXPECT_EQ(slurp(*folder / name), "the old file");
                         EXPECT_EQ(folder->files(), 1U);
                         throw;
                       }
                     };
                     return Trial{call, [=] {
                                    call();
                                    EXPECT_EQ(folder->files(), 1U);
                                    const Vector<double> v = read_vector(test_context(), *folder / name);
                                    return std::vector<double>(v.data(), v.data() + v.size());
                                  }};
                   }});
  }
  return all;
}

}  // namespace protean::test
