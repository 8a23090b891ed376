// What a user should know of a solve next to its status.
#pragma once
#include <string>

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

// text := text, and the note behind it.
void add_note(std::string& text, const std::string& note);

}  // namespace protean::apps
