"""Protean for Conan 2: conan create cmake/packages/conan --build=missing

The sources are those of this checkout. docs/packaging.md says what of this recipe was tried.
"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Protean(ConanFile):
    name = "protean"
    license = "BSD-3-Clause"
    description = "Krylov solvers whose matrix changes its storage format while the solve is running"
    topics = ("sparse matrices", "Krylov methods", "linear solvers")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "command": [True, False]}
    default_options = {"shared": False, "command": True}

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._checkout, "CMakeLists.txt"))
        self.version = re.search(r"project\(Protean VERSION ([0-9.]+)", text)[1]

    def export_sources(self):
        for name in ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
                     "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", "protean.hpp", "solve.hpp"):
            copy(self, name, self._checkout, self.export_sources_folder)
        for room in ("apps", "cmake", "core", "docs", "examples", "formats", "interfaces", "operators",
                     "preconditioners", "problems", "solvers", "systems"):
            copy(self, f"{room}/*", self._checkout, self.export_sources_folder)

    def requirements(self):
        self.requires("fmt/[>=9 <11]")
        self.requires("highway/[>=1.0.3 <2]")
        self.requires("fast_float/[>=3 <7]")
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("xz_utils/[>=5.4 <6]")
        self.requires("nlohmann_json/[>=3.11 <4]")
        if self.options.command:
            self.requires("yaml-cpp/[>=0.7 <1]")
            self.requires("cli11/[>=2.2 <3]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        needs = CMakeDeps(self)
        # The names by which the build asks for them.
        needs.set_property("highway", "cmake_file_name", "hwy")
        needs.set_property("highway", "cmake_target_name", "hwy::hwy")
        needs.set_property("fast_float", "cmake_file_name", "FastFloat")
        needs.set_property("fast_float", "cmake_target_name", "FastFloat::fast_float")
        needs.generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["PROTEAN_TESTS"] = False
        toolchain.cache_variables["PROTEAN_APPS"] = bool(self.options.command)
        for library in ("CUDA", "KOKKOS", "MKL", "METIS", "HYPRE", "PETSC"):
            toolchain.cache_variables[f"PROTEAN_{library}"] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["protean"]
        self.cpp_info.system_libs = ["m", "pthread", "gomp"]
        self.cpp_info.set_property("cmake_file_name", "Protean")
        self.cpp_info.set_property("cmake_target_name", "Protean::protean")
        self.cpp_info.set_property("pkg_config_name", "protean")
