# Reads the versions that python/poptorch_core/versions.py and pyproject.toml state.
function(poptorch_read_version result file line)
  set(path ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  file(STRINGS ${path} found REGEX "^${line} = ")
  string(REGEX MATCH "[0-9][0-9. ]*" version "${found}")
  set(${result} ${version} PARENT_SCOPE)
endfunction()

poptorch_read_version(POPTORCH_VERSION python/poptorch_core/versions.py VERSION)
poptorch_read_version(POPTORCH_TORCH_VERSION python/poptorch_core/versions.py TORCH)
poptorch_read_version(POPTORCH_NEWER_TORCH_VERSIONS python/poptorch_core/versions.py NEWER_TORCH)
poptorch_read_version(POPTORCH_ONEDNN_VERSION python/poptorch_core/versions.py ONEDNN)
poptorch_read_version(POPTORCH_PYTHON_VERSION pyproject.toml requires-python)
