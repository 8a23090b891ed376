// Everything a program that embeds Protean needs: #include <protean/protean.hpp>, link Protean::protean.
#pragma once
#if __cplusplus < 202002L
#error "Protean needs C++20: compile with -std=c++20 (CMake does so for what links Protean::protean)"
#endif

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <protean/core/background.hpp>
#include <protean/core/blas1.hpp>
#include <protean/core/context.hpp>
#include <protean/core/csr.hpp>
#include <protean/core/csr_view.hpp>
#include <protean/core/error.hpp>
#include <protean/core/generate/generate.hpp>
#include <protean/core/io/matrix_market.hpp>
#include <protean/core/io/pbin.hpp>
#include <protean/core/io/vector_file.hpp>
#include <protean/core/locality.hpp>
#include <protean/core/memory.hpp>
#include <protean/core/multi_blas1.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/core/ordering.hpp>
#include <protean/core/pattern_mark.hpp>
#include <protean/core/permutation.hpp>
#include <protean/core/statistics.hpp>
#include <protean/core/vector.hpp>
#include <protean/core/watch.hpp>
#include <protean/formats/catalogue.hpp>
#include <protean/formats/choose.hpp>
#include <protean/formats/compose.hpp>
#include <protean/formats/survey.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/callback_operator.hpp>
#include <protean/operators/elements/element_operator.hpp>
#include <protean/operators/layout.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/multi_product.hpp>
#include <protean/operators/ordered_operator.hpp>
#include <protean/operators/parts.hpp>
#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/operators/policy/cost_model.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/operators/rows.hpp>
#include <protean/operators/tuning.hpp>
#include <protean/preconditioners/callback_preconditioner.hpp>
#include <protean/preconditioners/options.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/auto_switcher.hpp>
#include <protean/solvers/format_schedule.hpp>
#include <protean/solvers/multi_solver.hpp>
#include <protean/solvers/options.hpp>
#include <protean/solvers/solver.hpp>
#include <protean/systems/linear_system.hpp>
