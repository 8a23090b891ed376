// The selectors, each made in one of the sources next to this file.
#pragma once
#include "formats/selectors/selector.hpp"

namespace protean::selector_entries {

const FormatSelector& model();   // model.cpp
const FormatSelector& clspmv();  // benchmarked.cpp
const FormatSelector& smat();    // classifiers.cpp
const FormatSelector& sedaghati();
const FormatSelector& oracle_forest();
const FormatSelector& zhao();  // trained_times.cpp
const FormatSelector& forest_times();
const FormatSelector& guo_wang();  // formulas.cpp
const FormatSelector& li_pmf();
const FormatSelector& choi();
const FormatSelector& abu_sufah();
const FormatSelector& reguly_giles();
const FormatSelector& kubota_takahashi();  // measured.cpp

}  // namespace protean::selector_entries
