# Builds in the folder POPTORCH_BUILT, as that is configured, and installs from it.
add_custom_target(built ALL COMMAND ${CMAKE_COMMAND} --build ${POPTORCH_BUILT} USES_TERMINAL)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${POPTORCH_BUILT}\" --component python --strip
                          --prefix \"\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)
  file(STRINGS \"${POPTORCH_BUILT}/install_manifest_python.txt\" CMAKE_INSTALL_MANIFEST_FILES)"
  COMPONENT python)
