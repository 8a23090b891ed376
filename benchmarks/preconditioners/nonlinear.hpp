// The linear systems of two nonlinear problems, one after another: all have one pattern, and their values change.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/multi_vector.hpp"
#include "core/vector.hpp"

namespace protean::bench {

struct NonlinearSequence {
  ContextPtr context;                         // of all arrays but `coordinates`
  CsrMatrix<double> first;                    // the first matrix; it has the pattern of all
  std::vector<Vector<double>> values, right;  // of each system: the entries of A, and b
  MultiVector<double> coordinates;            // nodes x 3, in host memory; empty for one unknown of a node
  std::string about;                          // what the problem came to, for a person
};

// -div((1 + u^2) grad u) = s in a cube with n elements along a side, trilinear hexahedra ("hex") or six linear
// tetrahedra in the place of each ("tet"), u = 0 on its boundary. The source s grows from step to step; each step is
// one of Picard's iteration: the conductivity of an element follows from the last u at its centre. b is the same for
// all.
NonlinearSequence diffusion_sequence(const ContextPtr& host, const ContextPtr& context,
                                     const std::string& shape, int n, int steps);

// A beam of n x n x 3 n trilinear hexahedra (1 x 1 x 3), of a compressible neo-Hookean material (Young's modulus 1,
// Poisson's ratio 0.3), fixed at its end z = 0. The force on the other end, across the beam, grows in steps of three
// Newton iterations each. A is the tangent stiffness, b the residual of the forces; the 3 unknowns of each node follow
// each other, and the rows of fixed ones are rows of the identity.
NonlinearSequence beam_sequence(const ContextPtr& host, const ContextPtr& context, int n, int systems);

}  // namespace protean::bench
