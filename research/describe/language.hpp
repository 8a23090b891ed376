// A language that describes how a storage format holds a sparse matrix, in the manner of Grewe and Lokhmotov
// (Automatically generating and tuning GPU code for sparse matrix-vector multiplication from a high-level
// representation, GPGPU-4, 2011, doi:10.1145/1964179.1964196): from one description, which knows no machine, come the
// conversion (convert.hpp) and kernels for a processor and for a GPU (generate.hpp), which are tuned by trying
// (tune.hpp). The papers at hand (the survey of Filippone et al.) name the system and not its grammar; the grammar is
// ours. research/README.md explains it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace protean::research {

// Variables and arrays are numbers in the lists of a Description.
struct Expression {
  enum class Kind : unsigned char {
    number,    // value
    variable,  // variable `value`
    element,   // array `value` at parts
    plus,
    minus,
    times,
    over,  // towards 0, as in C
    rest,
    least,
    most,
    ceil,     // parts[0] / parts[1], upwards
    length,   // entries of the row at a position
    row_at,   // the row at a position
    find,     // the i with scan[i] <= parts[0] < scan[i + 1], scan: array `value`
    count,    // elements of array `value`
    most_of,  // of parts[2] for variable `value` from parts[0] up to before parts[1]; 0 of none
    sum_of
  };
  Kind kind = Kind::number;
  std::int64_t value = 0;
  std::vector<Expression> parts;
  int line = 0;
};

enum class Relation : unsigned char { less, at_most, more, at_least, equal, other };

struct Variable {
  enum class Kind : unsigned char {
    matrix,  // rows, cols, nonzeros, longest
    size,    // a constant of the kernel
    number,  // computed once from the matrix
    bound,   // of a definition
    loop,
    local,
    entry  // value, row, column of the entry that a point of the loops holds
  };
  std::string name;
  Kind kind = Kind::matrix;
  bool host_only = false;  // only the conversion can compute it
  int line = 0;
  std::int64_t value = 0;             // size: its default
  std::vector<std::int64_t> choices;  // size: what the tuner tries
  Expression definition;              // number, local
};

struct Array {
  enum class Kind : unsigned char { values, stored, computed, scan, list, list_start };
  std::string name;
  Kind kind = Kind::stored;
  int line = 0;
  std::vector<Expression> extents;  // one or two; two: a table, which kernels may have turned
  int variable = -1;                // computed, scan: the variable of the definition
  Expression definition;            // computed, scan; list: what is listed
  Expression group;                 // list with a list_start: which group an entry belongs to
  int start = -1;                   // list: its list_start, or -1
};

struct Statement {
  enum class Kind : unsigned char { let, where, entry_of, entry_at, store, product, loop };
  enum class Loop : unsigned char {
    plain,     // one iteration after another
    parallel,  // iterations write different rows of y
    shared     // iterations may write the same row
  };
  Kind kind = Kind::let;
  Loop loop = Loop::plain;
  Relation relation = Relation::less;
  int line = 0;
  int variable = -1;  // let, loop
  int array = -1;     // store, product
  std::vector<Expression>
      parts;  // where: both sides; entry: the two numbers; store: indices, then what; product: row of
              // y, indices of the value, index of x; loop: from, to
  std::vector<Statement> body;  // loop
};

// The first four variables are rows, cols, nonzeros and longest, the next three value, row and column.
struct Description {
  std::string name, file;
  std::vector<Variable> variables;
  std::vector<Array>
      arrays;  // lists and their starts next to each other, in the order in which they are computed
  std::vector<int> numbers;                 // variables, in the order in which they are computed; see steps
  std::vector<std::pair<bool, int>> steps;  // (array?, number in its list), in the order of the file
  bool ordered = false;
  Expression window;  // ordered: positions are sorted within that many; a number 0: within all
  std::vector<Statement> loops;
};
enum FixedVariable : int { rows_v, cols_v, nonzeros_v, longest_v, value_v, row_v, column_v, first_free_v };

// Throws BadFile with line and column.
Description parse_description(std::string_view text, const std::string& file);

// The descriptions that the program has: csr, ell ...
std::vector<std::string> built_in_descriptions();
// The text of one of them; of a file if the name is not one of these. Throws BadFile.
std::string description_text(const std::string& name_or_file);

}  // namespace protean::research
