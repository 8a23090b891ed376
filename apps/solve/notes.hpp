// What a user should know of a solve next to its status.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "solvers/solver.hpp"

namespace protean::apps {

// A note for a solve with more threads than processors; else empty.
std::string note_on_threads(int threads, int processors);

// A note for a solve that has converged by a norm that does not see some of its rows (UnseenRows); else empty. All is
// in host memory. csr: without row pointers for element matrices, of which nothing is said.
std::string note_on_unseen_rows(const Context& context, const CsrMatrix<double>& csr,
                                VectorView<const double> b, VectorView<const double> x,
                                const SolverOptions& options, const SolveReport& result);

// What to do about a solve that has not converged; empty if it has. The solve itself sees only entries that are not
// small compared with the norm: for a method for symmetric matrices this looks at all.
std::string advice_for(const Context& context, const CsrMatrix<double>& csr, std::string_view method,
                       const SolveReport& result);

// A note for a matrix that maps a vector of zeros and ones to zero, since a small residual says nothing of the part of
// x in the null space of A, and for a symmetric one of which no x has a residual of tolerance ||b||; else empty. given:
// null_space is constant, so that vector is known. symmetric: if it is known.
std::string note_on_null_space(const Context& context, const CsrMatrix<double>& csr, bool given,
                               std::optional<bool> symmetric, VectorView<const double> b, double tolerance);

// text := text, and the note behind it.
void add_note(std::string& text, const std::string& note);

}  // namespace protean::apps
