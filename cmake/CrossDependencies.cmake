# Finds what a build of the core for another architecture needs, without Python and oneDNN.
foreach(option POPTORCH_PYTHON POPTORCH_TORCH POPTORCH_ONEDNN)
  if(${option})
    message(FATAL_ERROR "[build] ${option} is not available when cross-compiling: -D${option}=OFF.")
  endif()
endforeach()
find_package(Threads REQUIRED)
include(ThirdParty)

# GoogleTest from the distribution's sources.
add_subdirectory(/usr/src/googletest ${CMAKE_CURRENT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
