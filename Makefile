# The short way: `make solve` and `make test` work from a fresh clone. They install missing system packages
# (Debian, Ubuntu), build with CMake presets and run. Everything else is plain CMake; see CONTRIBUTING.md.
PRESET ?= cpu-release
BUILD  := build/$(PRESET)

.PHONY: help solve install research research-install test test-all test-fresh build command wheel docs dependencies format format-check asan tsan fuzz bench clean

help:
	@echo "make solve         install what is missing, build, solve a real and a generated system"
	@echo "make install       build and install command, library, man pages and completion; PREFIX=FOLDER (/usr/local), DESTDIR=FOLDER"
	@echo "make research      build protean-research, the program behind \`protean reproduce\`; research-install: PREFIX=FOLDER"
	@echo "make test          build, and run the tests of what is installed"
	@echo "make test-all      install Kokkos, MKL, hypre, MFEM, deal.II, PETSc, SciPy and Chromium too, build the Python"
	@echo "                   package, and run every test of the host"
	@echo "make test-fresh    README's commands in a minimal Debian, which it makes in build/fresh-root (root, debootstrap)"
	@echo "make wheel         build the Python package into build/wheel; PYTHON=INTERPRETER (python3)"
	@echo "make wheel CUDA=1   the same with code for NVIDIA GPUs, into build/wheel-cuda"
	@echo "make docs          build the site of the documentation into build/docs/html (Sphinx from PyPI, Doxygen)"
	@echo "make build         the same, without running anything"
	@echo "make dependencies  only install what is missing"
	@echo "make asan | tsan   run the tests under AddressSanitizer + UBSan, or ThreadSanitizer"
	@echo "make fuzz          fuzz readers and C interface for SECONDS=10 each (clang); TARGETS=readers: without the library; SEED=n: the same inputs each time"
	@echo "make bench         build the benchmarks (peers are found when installed)"
	@echo "make format        format the sources with the pinned clang-format"

dependencies:
	@cmake/install-dependencies.sh

build: dependencies
	@cmake --preset $(PRESET) -B $(BUILD) $(CMAKE_ARGUMENTS)
	@cmake --build $(BUILD)

# The command alone: what builds the tests can wait.
command: dependencies
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) --target protean_command

solve: command
	@echo; echo "== problems/quickstart.yaml: a real system"
	@$(BUILD)/protean solve problems/quickstart.yaml
	@echo; echo "== problems/poisson.yaml: a generated one"
	@$(BUILD)/protean solve problems/poisson.yaml

# What is installed, without the tests. The list of targets is that of the install rules. A loader that searches PREFIX looks
# into its cache.
PREFIX ?= /usr/local
install: dependencies
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) --target protean protean_shared protean_petsc_types protean_ranks protean_command protean_manual
	@cmake --install $(BUILD) --prefix "$(PREFIX)" >$(BUILD)/install.log
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@echo "Protean is installed in $(PREFIX)"
	@case "$(PREFIX)" in /usr|/usr/local) ;; *) echo "For this shell, and for programs that use the library:"; \
	  echo "  export PATH=$(PREFIX)/bin:\$$PATH CMAKE_PREFIX_PATH=$(PREFIX) PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig LD_LIBRARY_PATH=$(PREFIX)/lib";; esac

# The program protean-research, by which `protean reproduce` works; research-install puts it next to an installed command.
research: dependencies
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) --target protean-research
research-install: research
	@cmake --install $(BUILD) --component research --prefix "$(PREFIX)"

# The Python package, with the libraries that it needs inside. It is linked with the library that
# `make solve` has built. From Python 3.12 on one wheel is for all later versions.
# WHEEL_BUILD: the folder of the build. CUDA=1: with code for GPUs (CUDA_ARCHITECTURES names others than those of
# cmake/build-wheel.sh).
PYTHON ?= python3
wheel: dependencies
	@CUDA="$(CUDA)" cmake/build-wheel.sh "$(PYTHON)" build/wheel$(if $(CUDA),-cuda) $(WHEEL_BUILD)

# The site. What it needs comes from Debian and PyPI; a page that is read needs no network.
docs:
	@cmake/install-dependencies.sh doxygen python3-venv
	@docs/site/build.sh build/docs

test: build
	@tests/run.sh $(BUILD) $(TESTS)
	@echo "The tests of Kokkos, MKL, hypre, MFEM, deal.II, PETSc, SciPy, the Python package and the page in a browser:"
	@echo "make test-all installs what they need"

# `make solve` and `make test` in a minimal Debian, in a folder: as root, with debootstrap.
test-fresh:
	@tests/install/fresh_root.sh build/fresh-root

# Skipped tests are failures here, but for those that need a GPU. BUILD is the folder, TESTS options of tests/run.sh.
test-all:
	@cmake/install-test-dependencies.sh build/test-libraries
	@cmake -C build/test-libraries/libraries.cmake --preset $(PRESET) -B $(BUILD) $(CMAKE_ARGUMENTS)
	@cmake --build $(BUILD)
	@tests/run.sh $(BUILD) $(TESTS) --allow-skips '^no device'

asan tsan:
	@$(MAKE) --no-print-directory test PRESET=$@

fuzz: SECONDS ?= 10
fuzz: TARGETS ?= all
fuzz: SEED ?= 0
fuzz: dependencies
	@tests/fuzz/run.sh $(SECONDS) $(TARGETS) $(SEED)

bench: dependencies
	@cmake --preset $(PRESET) -DPROTEAN_BENCHMARKS=ON
	@cmake --build --preset $(PRESET)

format:
	@cmake/format.sh

format-check:
	@cmake/format.sh --check

clean:
	rm -rf build
