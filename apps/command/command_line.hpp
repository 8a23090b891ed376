// The command line.
#pragma once

namespace protean::apps {

// Runs the command. Returns the exit code: 0 done or converged, 1 not converged, 2 bad input, 3 out of
// resources or device failure. Never throws.
int run(int argc, char** argv);

}  // namespace protean::apps
