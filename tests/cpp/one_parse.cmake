# For tests of projects as users write them (cpp_projects.py): their programs share one precompiled
# header, without which each of them parses all of torch.
function(share_headers)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(REVERSE targets)  # the macros of whose first the others have, too
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "EXECUTABLE")
      continue()
    elseif(first)
      target_precompile_headers(${target} REUSE_FROM ${first})
    else()
      set(first ${target})
      target_precompile_headers(${target} PRIVATE <torch/torch.h> <poptorch/poptorch.hpp>)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL share_headers)
