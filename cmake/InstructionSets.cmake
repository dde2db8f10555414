# The instruction sets that kernels are compiled for, the narrowest first. All of emulator/kernels is
# compiled for the first; emulator/kernels/sets for each, and the host's widest is chosen when a
# program starts. Sets of x86-64: SSE4 (x86-64-v2), AVX2 (v3), AVX512 (v4); of aarch64: NEON.
set(POPTORCH_SETS "" CACHE STRING
    "Instruction sets of the kernels; empty: those for this host; WIDEST: its widest alone")
set(sets ${POPTORCH_SETS})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(default NEON)
  set(widest NEON)
else()
  set(default AVX2 AVX512)
  set(widest AVX2)
  file(STRINGS /proc/cpuinfo avx2 REGEX "avx2" LIMIT_COUNT 1)
  file(STRINGS /proc/cpuinfo avx512 REGEX "avx512dq.*avx512bw.*avx512vl" LIMIT_COUNT 1)
  if(NOT avx2)
    list(PREPEND default SSE4)
    set(widest SSE4)
  elseif(avx512)
    set(widest AVX512)
  endif()
endif()
if(sets STREQUAL "WIDEST")
  set(sets ${widest})
elseif(NOT sets)
  set(sets ${default})
endif()

set(POPTORCH_FLAGS_SSE4 -march=x86-64-v2)
set(POPTORCH_FLAGS_AVX2 -march=x86-64-v3)
# GCC 12 warns about its own AVX-512 intrinsics.
set(POPTORCH_FLAGS_AVX512 -march=x86-64-v4 -mprefer-vector-width=512
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
set(POPTORCH_FLAGS_NEON -march=armv8-a)
# The flags of choose_set.cpp, which runs before the host has been checked.
set(POPTORCH_FLAGS_ANY_HOST "$<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-march=x86-64>")
set(rows)
foreach(set IN LISTS sets)
  if(NOT DEFINED POPTORCH_FLAGS_${set})
    message(FATAL_ERROR "[build] POPTORCH_SETS names '${set}'. Sets are SSE4, AVX2, AVX512, NEON and WIDEST.")
  endif()
  string(APPEND rows " row(${set})")
endforeach()
# Defines POPTORCH_SETS(row), which calls the macro `row` for each set.
set(POPTORCH_EACH_SET "-DPOPTORCH_SETS(row)=${rows}")
list(GET sets 0 first)
set(POPTORCH_FLAGS_FIRST ${POPTORCH_FLAGS_${first}})
set(POPTORCH_SETS_BUILT ${sets})
message(STATUS "Instruction sets of the kernels: ${sets}")
