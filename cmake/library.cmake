# SPDX-License-Identifier: Apache-2.0
# The library. Its sources are compiled once, into stiletto_objects; libstiletto is made of them, and
# so is stiletto_internal, a static library for the tests, which reach symbols that libstiletto hides.

file(GLOB_RECURSE STILETTO_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp")
file(GLOB_RECURSE STILETTO_PUBLIC_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/stiletto/*.hpp")
# Files installed beside the library are targets of their own (cmake/companions.cmake and below).
list(FILTER STILETTO_SOURCES EXCLUDE REGEX "/companions/")
if(STILETTO_HAS_CUDNN)
  include(cmake/target_files.cmake)
  list(APPEND STILETTO_SOURCES "${STILETTO_TARGET_SOURCE}")
else()
  list(FILTER STILETTO_SOURCES EXCLUDE REGEX "/backends/cudnn/")
endif()

# The CPU kernels: sources compiled for three instruction sets, chosen among at run time. Contraction is off
# so that all three round alike, but for attention, where half of the arithmetic would be lost; errno and traps
# are off because they keep loops from vectorising.
set(kernel_folder "${PROJECT_SOURCE_DIR}/src/backends/cpu")
set(STILETTO_KERNEL_OPTIONS ${STILETTO_KERNEL_OPTIMIZATION} -fno-math-errno -fno-trapping-math -ffp-contract=off)
set(kernel_options_attention_kernels -ffp-contract=fast)
set(kernel_options_baseline)
set(kernel_options_avx2 -march=x86-64-v3)
set(kernel_options_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
foreach(kernels kernels attention_kernels)
  foreach(variant baseline avx2 avx512)
    set(kernel_source "${kernel_folder}/${kernels}_${variant}.cpp")
    if(kernel_source IN_LIST STILETTO_SOURCES)
      if(variant STREQUAL "baseline" OR CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
        set_property(SOURCE "${kernel_source}" APPEND PROPERTY COMPILE_OPTIONS
                     ${STILETTO_KERNEL_OPTIONS} ${kernel_options_${kernels}} ${kernel_options_${variant}})
      else()
        list(REMOVE_ITEM STILETTO_SOURCES "${kernel_source}")
      endif()
    endif()
  endforeach()
endforeach()

# Settings of every target compiled from this tree. Warnings are errors only in our own presets.
add_library(stiletto_options INTERFACE)
target_compile_features(stiletto_options INTERFACE cxx_std_20)
target_compile_options(stiletto_options INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${STILETTO_WERROR}>:-Werror>)

add_library(stiletto_objects OBJECT ${STILETTO_SOURCES})
set_target_properties(stiletto_objects PROPERTIES
  CXX_EXTENSIONS OFF
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  POSITION_INDEPENDENT_CODE ON)
target_include_directories(stiletto_objects
  PUBLIC "${PROJECT_SOURCE_DIR}/include"
  PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(stiletto_objects PRIVATE "STILETTO_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(stiletto_objects PRIVATE stiletto_options stiletto::dnnl Threads::Threads)
if(STILETTO_HAS_CUDNN)
  target_compile_definitions(stiletto_objects PRIVATE STILETTO_HAS_CUDNN=1)
  # Folders that are searched after those beside the library: of the build tree, and of the installation,
  # which a program that holds a static library could not find otherwise. For one source only: a path in every
  # command line would keep ccache from sharing between trees.
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/backends/cudnn/library_search.cpp" APPEND PROPERTY COMPILE_DEFINITIONS
    "STILETTO_BUILD_FOLDER=\"${PROJECT_BINARY_DIR}\""
    "STILETTO_INSTALL_FOLDER=\"${CMAKE_INSTALL_FULL_LIBDIR}/stiletto\""
    "STILETTO_WHEEL_FOLDER=\"${PROJECT_SOURCE_DIR}/.deps/nvidia\"")
  target_link_libraries(stiletto_objects PRIVATE $<BUILD_INTERFACE:stiletto_cudnn_headers> ${CMAKE_DL_LIBS})
endif()

add_library(stiletto $<TARGET_OBJECTS:stiletto_objects>)
add_library(stiletto::stiletto ALIAS stiletto)
set_target_properties(stiletto PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LINKER_LANGUAGE CXX)
target_compile_features(stiletto PUBLIC cxx_std_20)
target_include_directories(stiletto PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(stiletto PRIVATE stiletto::dnnl Threads::Threads ${CMAKE_DL_LIBS})

add_library(stiletto_internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:stiletto_objects>)
set_target_properties(stiletto_internal PROPERTIES LINKER_LANGUAGE CXX)
target_compile_features(stiletto_internal PUBLIC cxx_std_20)
target_include_directories(stiletto_internal PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(stiletto_internal PUBLIC stiletto::dnnl Threads::Threads ${CMAKE_DL_LIBS})
