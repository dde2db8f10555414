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

find_package(Threads REQUIRED)
include(ThirdParty)

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
  include(Torch)
endif()

include(RuntimePaths)

if(POPTORCH_TESTS)
  find_package(GTest CONFIG QUIET)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR "[build] GoogleTest was not found. On Debian or Ubuntu run: apt-get install "
                        "libgtest-dev. Without the unit tests: -DPOPTORCH_TESTS=OFF.")
  endif()
endif()
