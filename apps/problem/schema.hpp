// The problem file as a JSON Schema, from which an editor completes keys and words and marks what is wrong.
#pragma once
#include <string>

namespace protean::apps {

// The schema (draft 2020-12), made of the tables that the reader of problem files uses: problem_keys(), the options of
// the library, the kinds of matrix.generate, the formats with their parameters and kernels, and the rules of parts.
// What the schema refuses, parse_problem() refuses, too; a few rules between keys are those of the reader alone.
// Kernels and words are those of this build.
std::string problem_schema();

}  // namespace protean::apps
