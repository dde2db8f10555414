# Builds in the folder POPTORCH_BUILT, as that is configured, and installs from it.
if(POPTORCH_EDITABLE)
  message(FATAL_ERROR "[build] POPTORCH_BUILT=${POPTORCH_BUILT} in an editable installation: libraries of that "
                      "folder find torch from a wheel only. Leave it out, or set "
                      "PYTHONPATH=${POPTORCH_BUILT}/python instead of an installation.")
endif()
add_custom_target(built ALL COMMAND ${CMAKE_COMMAND} --build ${POPTORCH_BUILT} USES_TERMINAL)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${POPTORCH_BUILT}\" --component python --strip
                          --prefix \"\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)
  file(STRINGS \"${POPTORCH_BUILT}/install_manifest_python.txt\" CMAKE_INSTALL_MANIFEST_FILES)"
  COMPONENT python)
