// The command line.
#pragma once

namespace protean::apps {

struct SolveArguments;

// How the program protean-ranks uses the command: `solve` takes the place of apps::solve(), and of the ranks that run
// it only rank 0 prints errors.
struct Entrance {
  int (*solve)(const SolveArguments& arguments) = nullptr;
  int rank = 0;
};

// Runs the command. Returns the exit code: 0 done or converged, 1 not converged, 2 bad input, 3 out of
// resources or device failure. Never throws. A solve on several ranks, or by engine petsc, replaces the process
// (become_ranks()).
int run(int argc, char** argv, Entrance entrance = {});

// For main(): if a destructor has no memory, so that the process must end (std::terminate), it ends with a message
// and exit code 3. Some libraries take memory when they destroy their objects (nlohmann-json), and there is no way
// back.
void end_with_a_message() noexcept;

}  // namespace protean::apps
