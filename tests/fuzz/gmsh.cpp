// Meshes of Gmsh: a mesh whose numbers are in range, or an error of the library.
#include <array>

#include "apps/fem/mesh.hpp"
#include "fuzz/memory_file.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  static MemoryFile file;
  file.fill(input);
  const auto mesh = read_or_refuse([&] { return apps::fem::read_gmsh(file.path()); });
  if (!mesh) return;
  const auto nodes = static_cast<std::int64_t>(mesh->nodes.size());
  for (const auto* list : {&mesh->connectivity, &mesh->boundary})
    for (const std::int32_t node : *list)
      if (node < 0 || node >= nodes) broken("a node that is not there");
  if (mesh->connectivity.empty() || mesh->connectivity.size() % 4 != 0) broken("no tetrahedra");
}

constexpr std::array<std::string_view, 24> words = {"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n",
                                                    "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n",
                                                    "$Nodes\n",
                                                    "$EndNodes\n",
                                                    "$Elements\n",
                                                    "$EndElements\n",
                                                    "$PhysicalNames\n",
                                                    "$EndPhysicalNames\n",
                                                    "4.1 0 8",
                                                    "2.2 0 8",
                                                    "2.2 1 8",
                                                    "1e300",
                                                    "-1",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "2147483647",
                                                    "2147483648",
                                                    "nan",
                                                    "inf",
                                                    "1 4 0 1 2 3 4\n",
                                                    "1 0 0 0\n",
                                                    "\n",
                                                    " ",
                                                    "3 1 4 1\n"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_words(data, size, most, seed, words);
}

}  // namespace

extern const Target gmsh{"gmsh", run, mutate};

}  // namespace protean::fuzz
