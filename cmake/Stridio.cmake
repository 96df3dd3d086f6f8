# Headers that most sources read, and that take most sources the most time. A build without them (the preset no-mpi) sees that
# each source includes what it needs.
set(STRIDIO_PRECOMPILED <fmt/format.h> <algorithm> <atomic> <chrono> <condition_variable> <functional> <map> <memory> <mutex>
                        <optional> <random> <span> <string> <thread> <vector>)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # lets ccache see through them
# The first library and the first test precompile them, each for all of its kind.
macro(stridio_precompile target first)
  if(${target} STREQUAL ${first})
    target_precompile_headers(${target} PRIVATE ${STRIDIO_PRECOMPILED} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endmacro()

# stridio_folder(name SOURCES ... USES ...): one static library a folder of src/. A folder sees its own
# headers and those of the folders that it USES, so that an include against the arrows does not compile.
# Each folder's public headers are reached as "<folder>/<header>.h" through a link farm of its own.
function(stridio_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  set(farm ${CMAKE_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${farm})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${farm}/${name} SYMBOLIC)
  add_library(stridio_${name} STATIC ${ARG_SOURCES})
  target_include_directories(stridio_${name} PUBLIC ${farm})
  list(TRANSFORM ARG_USES PREPEND stridio_)
  target_link_libraries(stridio_${name} PUBLIC ${ARG_USES} Threads::Threads)
  stridio_precompile(stridio_${name} stridio_base)
endfunction()

# stridio_test(name SOURCES ... USES ... LABELS ... [ARGS ...]): one GoogleTest binary, one ctest entry.
function(stridio_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;USES;LABELS;ARGS" ${ARGN})
  list(TRANSFORM ARG_USES PREPEND stridio_)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_USES} GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1)  # a fifth to a third less time than -O3
  stridio_precompile(${name} base_test <gtest/gtest.h>)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
