# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: headers, library, the stiletto command, CMake package, licences, and in
# lib/stiletto/, a folder of ours so that nothing there shadows anybody else's: the driver stand-in, the plan
# builder and, unless oneDNN is the system's own, a copy of it. An outside program then needs nothing but the
# prefix and a compiler; CUDA and cuDNN stay the machine's own.
include(CMakePackageConfigHelpers)

option(STILETTO_INSTALL "Make install rules" ${STILETTO_TOP_LEVEL})
if(NOT STILETTO_INSTALL)
  return()
endif()

get_target_property(onednn_type DNNL::dnnl TYPE)
set(bundle_default OFF)
get_filename_component(onednn_folder "${dnnl_DIR}" REALPATH)   # /lib is a link to /usr/lib
if(onednn_type STREQUAL "SHARED_LIBRARY" AND NOT onednn_folder MATCHES "^/usr/")
  set(bundle_default ON)
endif()
option(STILETTO_BUNDLE_ONEDNN "Install a copy of oneDNN with the library" ${bundle_default})

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/stiletto")
set(bundle_folder "${CMAKE_INSTALL_LIBDIR}/stiletto")

# All that the rules below install.
add_custom_target(stiletto_installed DEPENDS stiletto)
foreach(program stiletto_driver_stand_in stiletto_plan_builder stiletto_tool)
  if(TARGET ${program})
    add_dependencies(stiletto_installed ${program})
  endif()
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/stiletto" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(TARGETS stiletto EXPORT stiletto-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT stiletto-targets NAMESPACE stiletto:: DESTINATION "${package_folder}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/cmake/THIRD-PARTY.txt"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")

if(STILETTO_HAS_CUDNN)
  # Beside libstiletto, where find_companion (src/backends/cudnn/library_search.cpp) looks first.
  install(TARGETS stiletto_driver_stand_in LIBRARY DESTINATION "${bundle_folder}")
  install(TARGETS stiletto_plan_builder RUNTIME DESTINATION "${bundle_folder}")
  set_property(TARGET stiletto_plan_builder APPEND PROPERTY INSTALL_RPATH "$ORIGIN;$ORIGIN/..")
endif()
if(STILETTO_BUILD_TOOLS)
  install(TARGETS stiletto_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  file(RELATIVE_PATH library_folder "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_property(TARGET stiletto_tool APPEND PROPERTY INSTALL_RPATH "$ORIGIN/${library_folder}")
endif()

if(STILETTO_BUNDLE_ONEDNN)
  install(PROGRAMS $<TARGET_FILE:DNNL::dnnl> DESTINATION "${bundle_folder}"
          RENAME $<TARGET_SONAME_FILE_NAME:DNNL::dnnl>)
  set_property(TARGET stiletto APPEND PROPERTY INSTALL_RPATH "$ORIGIN/stiletto")
  # A program that holds a static libstiletto finds oneDNN by itself.
  if(STILETTO_BUILD_TOOLS)
    set_property(TARGET stiletto_tool APPEND PROPERTY INSTALL_RPATH "$ORIGIN/${library_folder}/stiletto")
  endif()
  set(onednn_documents "${dnnl_DIR}/../../../share/doc/onednn")
  foreach(document LICENSE THIRD-PARTY-PROGRAMS)
    if(EXISTS "${onednn_documents}/${document}")
      install(FILES "${onednn_documents}/${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/onednn")
    endif()
  endforeach()
endif()

get_target_property(library_type stiletto TYPE)
configure_package_config_file(cmake/stiletto-config.cmake.in stiletto-config.cmake.base
  INSTALL_DESTINATION "${package_folder}" PATH_VARS bundle_folder)
# A second pass fills in oneDNN's file name, which only a generator expression knows.
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/stiletto-config.cmake" INPUT "${PROJECT_BINARY_DIR}/stiletto-config.cmake.base")
write_basic_package_version_file(stiletto-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/stiletto-config.cmake" "${PROJECT_BINARY_DIR}/stiletto-config-version.cmake"
        DESTINATION "${package_folder}")
