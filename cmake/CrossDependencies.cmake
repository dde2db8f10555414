# Finds what a build of the core for another architecture needs, without Python and oneDNN. The
# distribution's headers of the C++ libraries do not depend on the architecture; they are linked into a
# folder of their own, because /usr/include has those of this machine's C library, too.
foreach(option POPTORCH_PYTHON POPTORCH_TORCH POPTORCH_ONEDNN)
  if(${option})
    message(FATAL_ERROR "[build] ${option} is not available when cross-compiling: -D${option}=OFF.")
  endif()
endforeach()
find_package(Threads REQUIRED)
set(headers ${CMAKE_CURRENT_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(name fmt spdlog nlohmann xxhash.h)
  if(NOT EXISTS /usr/include/${name})
    message(FATAL_ERROR "[build] /usr/include/${name} was not found. On Debian or Ubuntu run: "
                        "apt-get install libspdlog-dev nlohmann-json3-dev libxxhash-dev")
  endif()
  file(CREATE_LINK /usr/include/${name} ${headers}/${name} SYMBOLIC)
endforeach()
include_directories(SYSTEM ${headers})
foreach(library spdlog::spdlog_header_only fmt::fmt-header-only)
  add_library(${library} INTERFACE IMPORTED)
endforeach()
set_target_properties(spdlog::spdlog_header_only PROPERTIES INTERFACE_COMPILE_DEFINITIONS SPDLOG_FMT_EXTERNAL)
set_target_properties(fmt::fmt-header-only PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)

# GoogleTest from the distribution's sources.
add_subdirectory(/usr/src/googletest ${CMAKE_CURRENT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
