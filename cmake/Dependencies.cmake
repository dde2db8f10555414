# What the build needs from outside. Python packages are found through the interpreter, so that the
# same lines work in a virtual environment and in pip's isolated build.
if(CMAKE_CROSSCOMPILING)
  include(CrossDependencies)
  return()
endif()
if(NOT Python_EXECUTABLE AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python ${POPTORCH_PYTHON_VERSION} REQUIRED COMPONENTS Interpreter Development.Module)

# Asks the interpreter for a fact; an empty answer is an error that names the package to install.
function(poptorch_ask_python result statement package)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "${statement}" OUTPUT_VARIABLE answer
                  ERROR_VARIABLE problem OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(answer STREQUAL "")
    message(FATAL_ERROR "[build] ${package} is not installed for ${Python_EXECUTABLE}. "
                        "Run: ${Python_EXECUTABLE} -m pip install ${package}\n${problem}")
  endif()
  set(${result} ${answer} PARENT_SCOPE)
endfunction()

# A distribution's package, or an error that tells its name.
macro(poptorch_find_system package debian_name)
  find_package(${package} CONFIG QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "[build] ${package} was not found. On Debian or Ubuntu run: "
                        "apt-get install ${debian_name}")
  endif()
endmacro()

find_package(Threads REQUIRED)
poptorch_find_system(fmt libspdlog-dev)
poptorch_find_system(spdlog libspdlog-dev)
poptorch_find_system(nlohmann_json nlohmann-json3-dev)
find_path(POPTORCH_XXHASH xxhash.h)
if(NOT POPTORCH_XXHASH)
  message(FATAL_ERROR "[build] xxhash.h was not found. On Debian or Ubuntu run: "
                      "apt-get install libxxhash-dev")
endif()

if(POPTORCH_ONEDNN AND NOT dnnl_DIR)
  poptorch_ask_python(dnnl_DIR
    "import importlib.metadata as m; print(next(f.locate().resolve().parent for f in m.files('onednn-devel-cpu-gomp') if f.name == 'dnnl-config.cmake'))"
    onednn-devel-cpu-gomp==${POPTORCH_ONEDNN_VERSION})
endif()
if(POPTORCH_ONEDNN)
  find_package(dnnl 3.2 CONFIG REQUIRED)
  get_target_property(dnnl_file DNNL::dnnl IMPORTED_LOCATION_RELEASE)
  cmake_path(GET dnnl_file PARENT_PATH dnnl_folder)
endif()
if(POPTORCH_ONEDNN AND NOT dnnl_VERSION MATCHES "^3\\.2\\.")
  message(FATAL_ERROR "[build] oneDNN ${dnnl_VERSION} was found in ${dnnl_DIR}, but 3.2 is needed. Run: "
                      "${Python_EXECUTABLE} -m pip install "
                      "onednn-devel-cpu-gomp==${POPTORCH_ONEDNN_VERSION}")
endif()

poptorch_ask_python(pybind11_DIR "import pybind11; print(pybind11.get_cmake_dir())" pybind11)
find_package(pybind11 CONFIG REQUIRED)

if(POPTORCH_TORCH)
  poptorch_ask_python(torch_version
    "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    torch==${POPTORCH_TORCH_VERSION})
  if(NOT torch_version STREQUAL POPTORCH_TORCH_VERSION)
    message(FATAL_ERROR "[build] torch ${torch_version} was found, but ${POPTORCH_TORCH_VERSION} is "
                        "needed: the tracer relies on that version's dispatcher. Run: "
                        "${Python_EXECUTABLE} -m pip install torch==${POPTORCH_TORCH_VERSION}")
  endif()
  # Not through `import torch`, which takes seconds.
  poptorch_ask_python(torch_dir
    "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])" torch)
  set(Torch_DIR ${torch_dir}/share/cmake/Torch)
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # its config warns of static libraries that no wheel has
  find_package(Torch REQUIRED)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  find_library(POPTORCH_TORCH_PYTHON torch_python PATHS ${torch_dir}/lib NO_DEFAULT_PATH REQUIRED)
endif()

if(POPTORCH_TESTS)
  poptorch_find_system(GTest libgtest-dev)
endif()
