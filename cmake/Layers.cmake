# A layer is one folder of poptorch_cpp, compiled as an object library, so that each folder has its own
# flags and include paths. A folder without sources makes no library. Adding a file edits no list.

# What most files include anyway: parsed once a layer instead of once a file, a third of the build.
# No header of ours, so that touching one rebuilds what includes it and nothing else.
set(POPTORCH_COMMON_HEADERS <algorithm> <functional> <memory> <optional> <string> <unordered_map>
                            <variant> <vector>)

# poptorch_layer(<name> [FOLDER <folder>] [EXCLUDE <regex>]
#                [OPTIONS <flags>...] [LIBRARIES <targets>...] [INTO <list variable>])
function(poptorch_layer name)
  cmake_parse_arguments(arg "" "FOLDER;EXCLUDE;INTO" "OPTIONS;LIBRARIES" ${ARGN})
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
  target_precompile_headers(${target} PRIVATE ${POPTORCH_COMMON_HEADERS})
  set(${arg_INTO} ${${arg_INTO}} ${target} PARENT_SCOPE)
endfunction()
