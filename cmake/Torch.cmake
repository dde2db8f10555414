# torch's headers and libraries, from the wheel that the interpreter has.
poptorch_ask_python(torch_version
  "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
  torch==${POPTORCH_TORCH_VERSION})
string(REPLACE " " ";" torch_versions "${POPTORCH_TORCH_VERSION} ${POPTORCH_NEWER_TORCH_VERSIONS}")
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
include(TorchLibraries)
poptorch_import_torch(torch ${torch_dir})
