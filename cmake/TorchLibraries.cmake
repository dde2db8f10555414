# Defines the target `target`: torch's headers and libraries in the folder of its Python package. torch's own CMake
# files are not used: those of a CUDA build ask for CUDA's compiler.
function(poptorch_import_torch target folder)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  # The parts of torch that its wheels have; headers depend on them.
  target_compile_definitions(${target} INTERFACE USE_C10D_GLOO USE_DISTRIBUTED USE_RPC USE_TENSORPIPE)
  target_link_libraries(${target} INTERFACE ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
endfunction()
