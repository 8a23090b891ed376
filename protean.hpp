// Everything a program that embeds Protean needs: #include <protean/protean.hpp>, link Protean::protean.
#pragma once
#include <protean/core/blas1.hpp>
#include <protean/core/context.hpp>
#include <protean/core/csr.hpp>
#include <protean/core/error.hpp>
#include <protean/core/generate/generate.hpp>
#include <protean/core/io/matrix_market.hpp>
#include <protean/core/io/pbin.hpp>
#include <protean/core/memory.hpp>
#include <protean/core/statistics.hpp>
#include <protean/core/vector.hpp>
#include <protean/formats/catalogue.hpp>
#include <protean/formats/choose.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/solver.hpp>
