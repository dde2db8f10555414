# A layer is one folder of poptorch_cpp, compiled as an object library, so that each folder has its own
# flags and include paths. A folder without sources makes no library. Adding a file edits no list.

# The standard headers that most files include. They are parsed once for each set of flags. No header of
# this project is among them, so that changing one rebuilds its includers and nothing else.
set(POPTORCH_COMMON_HEADERS <algorithm> <functional> <map> <memory> <optional> <set> <sstream> <string>
                            <unordered_map> <variant> <vector>)

# How many files of a layer make one translation unit when POPTORCH_UNITY is on: few enough that two
# cores end at about the same time.
set(POPTORCH_UNITY_FILES 10)

# Compiles the sources of `target` in batches. A batch shares one unnamed namespace, so names in the
# unnamed namespaces of a layer differ.
function(poptorch_unity target)
  if(POPTORCH_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                          UNITY_BUILD_BATCH_SIZE ${POPTORCH_UNITY_FILES})
  endif()
endfunction()

# poptorch_layer(<name> [SEPARATE] [FOLDER <folder>] [EXCLUDE <regex>] [HEADERS <layer>]
#                [OPTIONS <flags>...] [LIBRARIES <targets>...] [INTO <list variable>])
# SEPARATE layers have no batches: the compiler optimises each file by itself. Sanitized builds are not
# optimised, so there they have batches too.
# HEADERS names a layer with the same flags, whose precompiled header serves this one too.
function(poptorch_layer name)
  cmake_parse_arguments(arg "SEPARATE" "FOLDER;EXCLUDE;INTO;HEADERS" "OPTIONS;LIBRARIES" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER}/*.cpp)
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target poptorch_${name})
  add_library(${target} OBJECT ${sources})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE ${POPTORCH_WARNINGS} ${arg_OPTIONS})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  if(arg_HEADERS)
    target_precompile_headers(${target} REUSE_FROM poptorch_${arg_HEADERS})
  else()
    target_precompile_headers(${target} PRIVATE ${POPTORCH_COMMON_HEADERS})
  endif()
  if(NOT arg_SEPARATE OR POPTORCH_SANITIZE)
    poptorch_unity(${target})
  endif()
  set(${arg_INTO} ${${arg_INTO}} ${target} PARENT_SCOPE)
endfunction()
