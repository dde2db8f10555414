# torch's headers and libraries, from the wheel that the interpreter has. Its own CMake files are not used:
# those of a CUDA build ask for CUDA's compiler.
poptorch_ask_python(torch_version
  "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
  torch==${POPTORCH_TORCH_VERSION})
set(torch_versions ${POPTORCH_TORCH_VERSION} ${POPTORCH_NEWEST_TORCH_VERSION})
if(NOT torch_version IN_LIST torch_versions)
  list(JOIN torch_versions " or " torch_versions)
  message(FATAL_ERROR "[build] torch ${torch_version} was found, but PopTorch ${POPTORCH_VERSION} needs "
                      "torch ${torch_versions}: the tracer relies on the dispatcher of these versions. "
                      "Run: ${Python_EXECUTABLE} -m pip install torch==${POPTORCH_TORCH_VERSION}")
endif()
# Not through `import torch`, which takes seconds.
poptorch_ask_python(torch_dir
  "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])" torch)
find_library(POPTORCH_TORCH_PYTHON torch_python PATHS ${torch_dir}/lib NO_DEFAULT_PATH REQUIRED)
add_library(torch INTERFACE IMPORTED)
target_include_directories(torch INTERFACE ${torch_dir}/include ${torch_dir}/include/torch/csrc/api/include)
# The parts of torch that its wheels have; headers depend on them.
target_compile_definitions(torch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED USE_RPC USE_TENSORPIPE)
target_link_libraries(torch INTERFACE ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)
