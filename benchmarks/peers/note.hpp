// Which other libraries a build has.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "benchmarks/common/report.hpp"
#include "benchmarks/peers/peers.hpp"

namespace protean::bench {

// The libraries of peers.hpp; their versions go to the report, and to the terminal with the machine.
inline std::vector<Peer> note_peers(Report& report) {
  const std::vector<Peer> peers = {mkl(), eigen(), petsc()};
  for (const Peer& peer : peers) {
    report["peers"][peer.library] = peer.version.empty() ? "absent" : peer.version;
    fmt::print("{} {}\n", peer.library, peer.version.empty() ? "is not in this build" : peer.version);
  }
  fmt::print("{}\n", report["machine"].dump());
  return peers;
}

}  // namespace protean::bench
