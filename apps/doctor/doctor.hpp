// `protean doctor`: examines the machine and the build, and says what is wrong and what to do.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "apps/doctor/findings.hpp"

namespace protean::apps {

struct DoctorArguments {
  bool json = false;
};

// All findings, in the order in which they are printed.
std::vector<Finding> examine();

// Of the worst of them: 0 ok, 1 warning, 3 fault.
int exit_code_of(std::span<const Finding> findings) noexcept;

// Prints the findings and returns that exit code.
int doctor(const DoctorArguments& arguments);

}  // namespace protean::apps
