# The MPIs that tests run under, and the function that makes a test of each.
#
# stridio_add_mpi(name FAMILY f INCLUDE folder LIBRARY file LAUNCHER file [DEFINITIONS ...] [SMALL])
#   An MPI that is there becomes the interface target mpi_<name>; SMALL ones run the smoke set of ranks.
# stridio_mpi_test(name SOURCES ... [INTERNALS] [RANKS ...] [SMALL_RANKS ...] [ARGS ...] [TIMEOUT s] [BEHIND library]
#                  [ENVIRONMENT ...] [ONLY mpis] [CASE text])
#   One executable for each MPI, <name>-<mpi>, and one ctest entry for each number of ranks, <name>-<mpi>-<ranks>,
#   labelled mpi, with the family's library preloaded. Called again with another CASE, it adds entries that run the same
#   executable with other ARGS or ENVIRONMENT. INTERNALS links the family's objects instead, to reach what
#   the library hides. BEHIND is a library to preload between ours and the MPI's.

set(STRIDIO_MPIS "" CACHE INTERNAL "")

function(stridio_add_mpi name)
  cmake_parse_arguments(ARG "SMALL" "FAMILY;INCLUDE;LIBRARY;LAUNCHER" "DEFINITIONS;FLAGS" ${ARGN})
  if(NOT ARG_INCLUDE OR NOT ARG_LIBRARY OR NOT ARG_LAUNCHER OR NOT TARGET stridio_${ARG_FAMILY})
    message(WARNING "no tests with ${name}: not all of it was found; run scripts/setup.sh")
    return()
  endif()
  add_library(mpi_${name} INTERFACE)
  target_include_directories(mpi_${name} SYSTEM INTERFACE ${ARG_INCLUDE})
  target_compile_definitions(mpi_${name} INTERFACE
    MPICH_SKIP_MPICXX OMPI_SKIP_MPICXX ${ARG_DEFINITIONS})
  target_link_libraries(mpi_${name} INTERFACE ${ARG_LIBRARY})
  set_target_properties(mpi_${name} PROPERTIES
    FAMILY ${ARG_FAMILY} LIBRARY ${ARG_LIBRARY} LAUNCHER ${ARG_LAUNCHER} SMALL ${ARG_SMALL}
    FLAGS "${ARG_FLAGS}")
  set(STRIDIO_MPIS ${STRIDIO_MPIS} ${name} CACHE INTERNAL "")
endfunction()

# The command line up to the program: `ranks` ranks with `preload` (and the MPI's own library) loaded into each.
function(stridio_mpi_command out mpi ranks preload environment)
  foreach(property FAMILY LIBRARY LAUNCHER FLAGS)
    get_target_property(${property} mpi_${mpi} ${property})
  endforeach()
  list(APPEND environment LD_PRELOAD=${preload}:${LIBRARY})
  set(command ${LAUNCHER} ${FLAGS} -n ${ranks})
  foreach(entry IN LISTS environment)
    if(FAMILY STREQUAL "ompi")
      list(APPEND command -x ${entry})
    else()
      string(REGEX REPLACE "^([^=]*)=(.*)$" "\\1;\\2" entry "${entry}")
      list(APPEND command -genv ${entry})
    endif()
  endforeach()
  set(${out} ${command} PARENT_SCOPE)
endfunction()

function(stridio_mpi_test name)
  cmake_parse_arguments(ARG "INTERNALS" "TIMEOUT;BEHIND;CASE" "SOURCES;RANKS;SMALL_RANKS;ARGS;ENVIRONMENT;ONLY;USES" ${ARGN})
  if(NOT ARG_ONLY)
    set(ARG_ONLY ${STRIDIO_MPIS})
  endif()
  foreach(mpi IN LISTS ARG_ONLY)
    if(TARGET mpi_${mpi})
      stridio_mpi_test_of(${mpi})
    endif()
  endforeach()
endfunction()

macro(stridio_mpi_test_of mpi)
  get_target_property(family mpi_${mpi} FAMILY)
  get_target_property(small mpi_${mpi} SMALL)
  set(executable ${name}-${mpi})
  if(NOT TARGET ${executable})
    add_executable(${executable} ${ARG_SOURCES})
    target_include_directories(${executable} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
    target_link_libraries(${executable} PRIVATE mpi_${mpi} ${ARG_USES})
    target_compile_options(${executable} PRIVATE -O1)  # they are built for each MPI: half the time of -O3
  endif()
  set(preload $<TARGET_FILE:stridio_${family}>)
  if(ARG_INTERNALS)
    target_link_libraries(${executable} PRIVATE stridio_mpiio_${family})
    set(preload "")
  else()
    add_dependencies(${executable} stridio_${family})
  endif()
  if(ARG_BEHIND)
    set(preload ${preload}:$<TARGET_FILE:${ARG_BEHIND}>)
    add_dependencies(${executable} ${ARG_BEHIND})
  endif()
  set(suffix)
  if(ARG_CASE)
    set(suffix -${ARG_CASE})
  endif()
  set(rank_counts ${ARG_RANKS})
  if(small)
    set(rank_counts ${ARG_SMALL_RANKS})
  endif()
  foreach(ranks IN LISTS rank_counts)
    stridio_mpi_command(command ${mpi} ${ranks} "${preload}" "${ARG_ENVIRONMENT}")
    stridio_mpi_ctest(${executable}-${ranks}${suffix} ${ranks} ${command} $<TARGET_FILE:${executable}> ${ARG_ARGS})
  endforeach()
endmacro()

macro(stridio_mpi_ctest test ranks)
  add_test(NAME ${test} COMMAND ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${test} PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ranks} ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe")
endmacro()
