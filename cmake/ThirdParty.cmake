# The header-only libraries of third_party. Layers that include them link poptorch_third_party.
add_library(poptorch_third_party INTERFACE)
target_include_directories(poptorch_third_party SYSTEM INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/third_party/include)
target_compile_definitions(poptorch_third_party INTERFACE FMT_HEADER_ONLY=1 SPDLOG_FMT_EXTERNAL)
