# Compiler settings that hold for every target. Bits must not depend on the compiler's choice of fused
# multiply-adds, hence -ffp-contract=off everywhere.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")

add_compile_options(-ffp-contract=off -fno-semantic-interposition)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ collects garbage only when its heap exceeds this many kB. With the default limit it spends a
  # sixth of the time of a large unit on that.
  add_compile_options("SHELL:--param ggc-min-heapsize=2000000")
endif()
# Code that runs once per compilation, not once per step, is built with -O1, which takes two thirds of
# the time. Kernels need -O3. The reference interpreter keeps the default.
set(POPTORCH_SELDOM_RUN -O1)
set(POPTORCH_KERNELS -O3)
set(POPTORCH_REFERENCE)
# Errors name the file that raises them: of the sources, not of the machine that compiled them.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
set(POPTORCH_WARNINGS -Wall -Wextra $<$<BOOL:${POPTORCH_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A class that holds values of an unnamed namespace is visible to the rest of its batch alone.
  # Some layers are one batch in every build.
  list(APPEND POPTORCH_WARNINGS -Wno-subobject-linkage)
endif()

# DT_RPATH, not DT_RUNPATH: it also holds for the libraries of our libraries, so that oneDNN finds the
# libgomp that torch ships and a process has one.
add_link_options(-Wl,--disable-new-dtags)
if(NOT (POPTORCH_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))  # the program has clang's runtimes
  string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,--no-undefined")
endif()

if(POPTORCH_SANITIZE)
  if(POPTORCH_TORCH)
    message(FATAL_ERROR "[build] POPTORCH_SANITIZE=${POPTORCH_SANITIZE} with POPTORCH_TORCH=ON: torch "
                        "is not built with sanitizers. Configure with -DPOPTORCH_TORCH=OFF.")
  endif()
  # -g1: lines in reports, no types for a debugger. Instrumented code takes long to optimise.
  set(CMAKE_CXX_FLAGS_RELEASE "-O0 -g1")
  set(POPTORCH_SELDOM_RUN)
  set(POPTORCH_KERNELS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    list(APPEND POPTORCH_WARNINGS -Wno-unknown-pragmas)  # g++'s ivdep
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")  # ccache does not store one that has a time stamp
  endif()
  add_compile_options(-fsanitize=${POPTORCH_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${POPTORCH_SANITIZE})
endif()

if(POPTORCH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT POPTORCH_SANITIZE)
    message(FATAL_ERROR "[build] POPTORCH_FUZZ=ON with ${CMAKE_CXX_COMPILER_ID}: libFuzzer is clang's. "
                        "Configure with CXX=clang++-16 and -DPOPTORCH_SANITIZE=address,undefined.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(POPTORCH_CCACHE ccache)
if(POPTORCH_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness that precompiled headers need; without it every such file is a miss.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${POPTORCH_CCACHE})
endif()
