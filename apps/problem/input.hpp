// What kind of file an input of the command is, and its text.
#pragma once
#include <filesystem>
#include <string>

namespace protean::apps {

// True for a name that ends in .mtx, .mtx.gz, .mtx.xz, .pbin or as Harwell-Boeing files do, and for a file or a pipe
// that begins as such a file does, whatever its name is. Also for matrices of other programs (.npz, .mat),
// which the reader of matrices refuses with the way to convert them. A pipe can be read as usual afterwards.
bool is_matrix_file(const std::string& file);

// What the command line calls `-` where it names an input: the standard input.
std::string input_path(const std::string& given);

// The folder at which relative paths in a problem file begin: its own; the working folder for a pipe.
std::filesystem::path folder_of_problem(const std::string& file);

// The text of a problem file of at most 16 MiB. Throws BadFile if it cannot be read.
std::string read_problem_text(const std::string& file);

}  // namespace protean::apps
