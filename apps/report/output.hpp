// The standard output of the commands.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace protean::apps {

// Prints the whole text. Throws WriteFailed when it cannot be written (a full disk, a closed pipe).
void print(std::string_view text);
// The same, or to the standard error if an output of the command is the standard output.
void print_beside(bool output_is_taken, std::string_view text);

// Columns of the terminal that this descriptor is; 80 for anything else.
int terminal_width(int descriptor);

// Breaks the text into lines of at most `width` characters and indents all except the first. A word that is longer than
// a line stays in one piece.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

// Breaks the lines that are longer than `width`. What is broken goes on in the column in which the value of the line
// begins: behind the first two spaces that stand between words.
std::string fitted(std::string_view text, std::size_t width);

}  // namespace protean::apps
