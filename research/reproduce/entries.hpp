// The tables and figures that `protean reproduce` makes. The list is data: an entry names what makes its exhibit.
#pragma once
#include <span>
#include <string_view>

#include "research/reproduce/exhibit.hpp"
#include "research/reproduce/lab.hpp"

namespace protean::research {

struct Entry {
  std::string_view id;        // "s0-table-9"
  std::string_view paper;     // "S0"
  std::string_view title;     // what the paper shows there
  std::string_view measures;  // what is measured or counted here
  std::string_view needs;     // "device", "counters of a GPU" ...; empty: nothing except the command
  Exhibit (*make)(Lab& lab, const Entry& entry);
  bool result = true;  // false: it describes the matrices or machines of the paper
};

// In the order of the papers.
std::span<const Entry> entries();
// Throws BadArgument with the nearest id.
const Entry& find_entry(std::string_view id);
// `all`, a paper (s0), or an id.
std::vector<const Entry*> entries_named(std::string_view name);

struct PaperInfo {
  std::string_view key, citation;
};
std::span<const PaperInfo> papers_reproduced();

// Makes the exhibit, with its time and provenance.
Exhibit run_entry(const Entry& entry, Lab& lab);

// What makes the exhibits, a file a paper.
namespace exhibits {
// S0, survey.cpp
Exhibit survey_matrices(Lab&, const Entry&);
Exhibit survey_products(Lab&, const Entry&);
Exhibit survey_bytes(Lab&, const Entry&);
Exhibit survey_conversion(Lab&, const Entry&);
Exhibit survey_histograms(Lab&, const Entry&);
Exhibit survey_patterns(Lab&, const Entry&);
Exhibit survey_profile(Lab&, const Entry&);
Exhibit survey_roofline(Lab&, const Entry&);
// S1, csr_gpu.cpp
Exhibit csr_matrices(Lab&, const Entry&);
Exhibit csr_counters(Lab&, const Entry&);
Exhibit csr_means(Lab&, const Entry&);
Exhibit csr_parameters(Lab&, const Entry&);
Exhibit csr_throughput(Lab&, const Entry&);
Exhibit csr_bandwidth(Lab&, const Entry&);
Exhibit csr_three_bandwidths(Lab&, const Entry&);
Exhibit csr_tuned(Lab&, const Entry&);
Exhibit csr_tuning(Lab&, const Entry&);
Exhibit csr_speedup(Lab&, const Entry&);
Exhibit csr_break_even(Lab&, const Entry&);
Exhibit csr_degrees(Lab&, const Entry&);
// S2, cocktail.cpp
Exhibit cocktail_matrices(Lab&, const Entry&);
Exhibit cocktail_products(Lab&, const Entry&);
Exhibit cocktail_improvement(Lab&, const Entry&);
Exhibit cocktail_dense(Lab&, const Entry&);
// S3, features.cpp
Exhibit feature_space(Lab&, const Entry&);
Exhibit feature_matrices(Lab&, const Entry&);
Exhibit feature_friends(Lab&, const Entry&);
Exhibit feature_energy(Lab&, const Entry&);
Exhibit feature_impact(Lab&, const Entry&);
Exhibit feature_formats(Lab&, const Entry&);
Exhibit feature_sizes(Lab&, const Entry&);
Exhibit feature_neighbours(Lab&, const Entry&);
// S4, tiles.cpp
Exhibit tile_platform(Lab&, const Entry&);
Exhibit tile_matrices(Lab&, const Entry&);
Exhibit tile_selection(Lab&, const Entry&);
Exhibit tile_kinds(Lab&, const Entry&);
Exhibit tile_products(Lab&, const Entry&);
Exhibit tile_space(Lab&, const Entry&);
Exhibit tile_preprocessing(Lab&, const Entry&);
}  // namespace exhibits

}  // namespace protean::research
