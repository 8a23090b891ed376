// The problem file as a JSON Schema, from which an editor completes keys and words and marks what is wrong.
#pragma once
#include <string>

namespace protean::apps {

// The schema (draft 2020-12), made of the tables that the reader of problem files uses: problem_keys(), the options of
// the library, the kinds of matrix.generate, the formats with their parameters and kernels, and the rules of parts.
// What the schema refuses, parse_problem() refuses, too; the reader alone has a few rules between keys. It has the
// kernels and words of this build.
std::string problem_schema();

}  // namespace protean::apps
