"""Protean for Spack, of this checkout: spack dev-build protean@main (docs/packaging.md).

Copy this file to packages/protean/package.py of a repository of recipes. It names no address of the sources.
"""
from spack.package import *


class Protean(CMakePackage):
    """Krylov solvers whose matrix changes its storage format while the solve is running."""

    license("BSD-3-Clause")

    version("main")

    variant("shared", default=True, description="Build the shared library alone")
    variant("command", default=True, description="Build the command protean")
    variant("cuda", default=False, description="Kernels for NVIDIA GPUs")
    variant("metis", default=False, description="Order metis")
    variant("hypre", default=False, description="Preconditioner amg with the classical setup")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("fmt@9:")
    depends_on("highway@1.0.3:")
    depends_on("fast-float")
    depends_on("nlohmann-json")
    depends_on("zlib-api")
    depends_on("xz")
    depends_on("yaml-cpp", when="+command")
    depends_on("cli11", when="+command")
    depends_on("cuda@12:", when="+cuda")
    depends_on("metis@5:", when="+metis")
    depends_on("hypre@2.20:+shared", when="+hypre")

    conflicts("%gcc@:11", msg="Protean needs C++20: g++ 12 or later")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("PROTEAN_APPS", "command"),
            self.define_from_variant("PROTEAN_CUDA", "cuda"),
            self.define_from_variant("PROTEAN_METIS", "metis"),
            self.define_from_variant("PROTEAN_HYPRE", "hypre"),
            self.define("PROTEAN_TESTS", self.run_tests),
            self.define("PROTEAN_KOKKOS", "OFF"),
            self.define("PROTEAN_MKL", "OFF"),
            self.define("PROTEAN_PETSC", "OFF"),
        ]
