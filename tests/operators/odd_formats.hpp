// Storage formats that are not in the catalogue, each with a fault, for tests of changes of format.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "formats/catalogue.hpp"
#include "operators/assembled_matrix.hpp"
#include "support/space.hpp"

namespace protean::test {

// Refuses every matrix.
const FormatEntry& refusing_format();
// Throws std::runtime_error("no luck") when the matrix is made.
const FormatEntry& throwing_format();
// Throws 7.
const FormatEntry& throwing_a_number_format();
// Returns a csr matrix with one value changed by one part in a million.
const FormatEntry& wrong_format();
// Returns a csr matrix with one value that is not a number.
const FormatEntry& not_a_number_format();
// csr, for square matrices only (host only).
const FormatEntry& square_format();
// Returns a null pointer.
const FormatEntry& null_format();
// Copies the matrix and then waits in parallel regions until it is cancelled, or for about ten seconds.
const FormatEntry& endless_format();
// Allocates a million bytes and then has no checkpoint for 2 ms, or while it is held.
const FormatEntry& stubborn_format();
void hold_stubborn_builds(bool held) noexcept;
// For values that float holds, in a kernel that is not "native"; one is wrong by a thousandth if asked for (host only).
const FormatEntry& foreign_kernel_format(bool wrong);
// Holds values rounded to float (host only). Not exact.
const FormatEntry& rounded_format();

// Number of builds of endless_format(), of stubborn_format(), that have begun to wait.
int endless_builds() noexcept;
int stubborn_builds() noexcept;
// Number of endless builds that ended without being cancelled.
int endless_builds_outlasted() noexcept;

}  // namespace protean::test
