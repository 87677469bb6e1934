# SPDX-License-Identifier: Apache-2.0
# Finds what the library is built from. All of it stays private: no public header names any of it.
# oneDNN is looked for in .deps/onednn (scripts/bootstrap.sh puts it there), then where CMake looks.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Stiletto needs g++ 12 or newer; this is ${CMAKE_CXX_COMPILER_VERSION}. Set CXX=g++-12.")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_package(dnnl 3 QUIET CONFIG HINTS "${PROJECT_SOURCE_DIR}/.deps/onednn")
if(NOT dnnl_FOUND)
  message(FATAL_ERROR "oneDNN 3 was not found: run scripts/bootstrap.sh, or set dnnl_DIR to the folder of its dnnl-config.cmake.")
endif()
message(STATUS "oneDNN ${dnnl_VERSION}: ${dnnl_DIR}")

# The library links oneDNN under a name of its own, so that an installed static package can supply
# the bundled copy without defining DNNL::dnnl, which its user may want to find elsewhere.
if(NOT TARGET stiletto::dnnl)
  add_library(stiletto::dnnl INTERFACE IMPORTED)
  set_target_properties(stiletto::dnnl PROPERTIES INTERFACE_LINK_LIBRARIES DNNL::dnnl)
endif()

find_program(STILETTO_CCACHE ccache)
mark_as_advanced(STILETTO_CCACHE)
if(STILETTO_TOP_LEVEL AND STILETTO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${STILETTO_CCACHE}")
endif()
