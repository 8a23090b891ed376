# Flags, and the functions that make the rooms (folders) of the library.
add_library(protean_flags INTERFACE)
# A feature, not CMAKE_CXX_STANDARD, which CMake would pass on to nvcc.
target_compile_features(protean_flags INTERFACE cxx_std_20)
# Clang's -Wshadow, unlike that of gcc, also means parameters that are named like a table of the file. In sources that
# are compiled together it also means the tables of the other sources.
set(cxx_flags -Wall -Wextra -Wno-unknown-pragmas
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>>:-Wshadow>")
if(PROTEAN_WARNINGS_AS_ERRORS)
  list(APPEND cxx_flags -Werror)
endif()
# GNU C++ contracts to fused multiply-add by default; Clang needs the option.
list(APPEND cxx_flags -ffp-contract=fast)
target_compile_options(protean_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>")
if(PROTEAN_HAVE_CUDA)
  # C++20 by hand: CMake 3.25 does not know it for nvcc.
  target_compile_options(protean_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--extended-lambda;--expt-relaxed-constexpr;-lineinfo>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall;-diag-suppress=554>")
  target_compile_definitions(protean_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:PROTEAN_HAVE_CUDA>)
endif()
# -g1 is enough for file and line in a report and builds much faster than -g.
foreach(sanitizer IN LISTS PROTEAN_SANITIZE)
  target_compile_options(protean_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${sanitizer};-fno-omit-frame-pointer;-g1>")
  target_link_options(protean_flags INTERFACE -fsanitize=${sanitizer})
endforeach()
if("undefined" IN_LIST PROTEAN_SANITIZE)
  target_compile_options(protean_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined>")
endif()
if(PROTEAN_FUZZ)
  target_compile_options(protean_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
endif()
target_include_directories(protean_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)

# protean_precompiled(<target> <header> [REUSE_FROM <owner>]): headers that are parsed once for the C++ sources of a
# target, or that the owner has parsed. An owner is a target without sources and with the options of the targets that
# reuse its headers: GCC takes them only if each macro of their command line is also defined. CMake's
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without them: ccache shares more objects between folders then.
function(protean_precompiled target header)
  if(ARGC GREATER 2)
    target_precompile_headers(${target} REUSE_FROM ${ARGV3})
  else()
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/${header}>")
  endif()
endfunction()
file(CONFIGURE OUTPUT nothing.cpp CONTENT "int main() {}\n")
set(PROTEAN_NOTHING ${CMAKE_CURRENT_BINARY_DIR}/nothing.cpp)
# protean_compiled_quickly(<target>): -O1 in a release (the last -O of a command line counts), for code that computes
# little itself: the tests and the command, which call the library, and what is not hot in the library. It takes about
# a third less time to compile. GCC 12 has false warnings about arrays and strings at that level.
function(protean_compiled_quickly target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>"
    "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-restrict>")
endfunction()

# protean_compiled_together(<target>): with PROTEAN_UNITY, up to eight sources of a target are one for the compiler.
# It then reads headers and instantiates templates once for all of these. Warnings that hold only for separate sources
# are off: builds without the option have them. Groups go by the list of sources, not by what an option leaves in it:
# two names that clash do so in every build.
function(protean_compiled_together target)
  if(PROTEAN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${target} SOURCES)
    set(place 0)
    foreach(source IN LISTS sources)
      if(source MATCHES "\\.cpp$")
        math(EXPR group "${place} / 8")
        math(EXPR place "${place} + 1")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${group})
      endif()
    endforeach()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
  endif()
endfunction()

# The headers of the rooms, for hot and for other sources: GCC may crash if headers were compiled with another -O.
foreach(owner protean_hot_headers protean_room_headers)
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${PROTEAN_NOTHING})
  target_link_libraries(${owner} PRIVATE protean_flags OpenMP::OpenMP_CXX fmt::fmt)
  protean_precompiled(${owner} cmake/precompiled.hpp)
endforeach()
protean_compiled_quickly(protean_room_headers)

# protean_sees_cuda(<target>): in a build with CUDA, the sources of a target that read PROTEAN_HAVE_CUDA or include the
# headers of CUDA get both. All others are compiled as without CUDA, so that a build folder to which CUDA is added
# keeps their objects. Headers do not read it.
function(protean_sees_cuda target)
  if(NOT PROTEAN_HAVE_CUDA)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    if(source MATCHES "\\.cpp$" AND EXISTS ${path})
      file(STRINGS ${path} marks REGEX "PROTEAN_HAVE_CUDA|include [<\"](cuda|cublas|cusparse|core/device/)" LIMIT_COUNT
        1)
      if(marks)
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS PROTEAN_HAVE_CUDA)
        foreach(folder IN LISTS CUDAToolkit_INCLUDE_DIRS)
          set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -isystem ${folder})
        endforeach()
      endif()
    endif()
  endforeach()
endfunction()

set_property(GLOBAL PROPERTY PROTEAN_ROOMS "")
# protean_room(<name> [SOURCES ...] [HOT ...] [LINK ...]): a room of the library as object libraries, which
# cmake/library joins into one. HOT are the sources in which programs spend their time, in protean_<name>_hot; the
# others are compiled quickly.
function(protean_room name)
  cmake_parse_arguments(arg "" "" "SOURCES;HOT;LINK" ${ARGN})
  set(targets protean_${name})
  add_library(protean_${name} OBJECT ${arg_SOURCES})
  protean_precompiled(protean_${name} cmake/precompiled.hpp REUSE_FROM protean_room_headers)
  protean_compiled_quickly(protean_${name})
  protean_compiled_together(protean_${name})
  if(arg_HOT)
    list(PREPEND targets protean_${name}_hot)
    add_library(protean_${name}_hot OBJECT ${arg_HOT})
    protean_precompiled(protean_${name}_hot cmake/precompiled.hpp REUSE_FROM protean_hot_headers)
  endif()
  foreach(target IN LISTS targets)
    target_link_libraries(${target} PRIVATE protean_flags OpenMP::OpenMP_CXX fmt::fmt ${arg_LINK})
    set_property(GLOBAL APPEND PROPERTY PROTEAN_ROOMS ${target})
    protean_sees_cuda(${target})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY PROTEAN_LINK ${arg_LINK})
endfunction()

# protean_sees_library(<target> <regex> <definition>...): these definitions for the sources of a target in which a line
# matches. All others are compiled as without the library, so that builds with and without it share their objects.
function(protean_sees_library target regex)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    if(EXISTS ${path})
      file(STRINGS ${path} marks REGEX "${regex}" LIMIT_COUNT 1)
      if(marks)
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS ${ARGN})
      endif()
    endif()
  endforeach()
endfunction()

# protean_room_part(<room> <name> <library> <sources>...): the sources of a room that include a library, with its
# headers, as protean_<room>_<name>.
function(protean_room_part room name library)
  set(target protean_${room}_${name})
  add_library(${target} OBJECT ${ARGN})
  protean_precompiled(${target} cmake/precompiled.hpp REUSE_FROM protean_hot_headers)
  target_link_libraries(${target} PRIVATE protean_flags OpenMP::OpenMP_CXX fmt::fmt ${library})
  set_property(GLOBAL APPEND PROPERTY PROTEAN_ROOMS ${target})
  set_property(GLOBAL APPEND PROPERTY PROTEAN_LINK ${library})
endfunction()

# protean_kokkos_sources(<target> <sources>...): sources of the target that include Kokkos, which has to compile them as
# CUDA if it has CUDA.
function(protean_kokkos_sources target)
  if(PROTEAN_KOKKOS_CUDA)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
    target_compile_definitions(${target} PRIVATE PROTEAN_KOKKOS_CUDA)
  else()
    protean_sees_cuda(${target})
  endif()
  target_compile_definitions(${target} PRIVATE PROTEAN_HAVE_KOKKOS)
endfunction()
