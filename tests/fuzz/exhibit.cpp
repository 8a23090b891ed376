// What `protean reproduce` has written and reads again, and the text, CSV and pages that are made of it.
#include "research/reproduce/exhibit.hpp"

#include <array>
#include <filesystem>

#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"
#include "research/reproduce/write.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  const auto exhibit = read_or_refuse([&] { return research::parse_exhibit(input, "exhibit.json"); });
  if (!exhibit) return;
  if (exhibit->id.empty() || std::filesystem::path(exhibit->id + ".json").filename() != exhibit->id + ".json")
    broken("the id is no name of a file");
  const std::string json = research::exhibit_json(*exhibit);
  const auto again = read_or_refuse([&] { return research::parse_exhibit(json, "again.json"); });
  if (!again || research::exhibit_json(*again) != json)
    broken("an exhibit changes when it is written and read");
  (void)research::exhibit_text(*exhibit);
  (void)research::exhibit_csv(*exhibit);
  (void)research::exhibits_html({&*exhibit, 1});
  (void)research::exhibits_summary({&*exhibit, 1});
}

constexpr std::array<std::string_view, 28> words = {
    "{",        "}",         "[",        "]",      ",",         ":",           "null",
    "true",     "false",     "1e308",    "-1e308", "1e17",      "1e-320",      "0",
    "-1",       "17",        "18",       "1e300",  "\"lines\"", "\"steps\"",   "\"points\"",
    "\"bars\"", "\"boxes\"", "\"heat\"", "\"\"",   "[1, 2]",    "\"\\u0000\"", "\"log\": true"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_words(data, size, most, seed, words);
}

}  // namespace

extern const Target exhibit{"exhibit", run, mutate};

}  // namespace protean::fuzz
