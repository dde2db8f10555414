# Where installed libraries find torch, libgomp and oneDNN. From a wheel they are found relative to
# site-packages/poptorch_core: torch/lib (also libgomp), and oneDNN in the environment's lib.
set(POPTORCH_RUNTIME_PATHS "")  # absolute ones
if(POPTORCH_EDITABLE)
  # The libraries lie beside the sources. Those of the build may be in a temporary environment.
  poptorch_ask_python(POPTORCH_RUNTIME_PATHS
    "import sys, sysconfig; print(sysconfig.get_path('platlib') + '/torch/lib;' + sys.prefix + '/lib')" torch)
endif()
