# SPDX-License-Identifier: Apache-2.0
# The two files that the cuDNN backend needs beside the library (src/backends/cudnn/companions).
#
# The driver stand-in: a library that answers to the name libcuda.so.1 and lets cuDNN build plans where there
# is no driver. Its functions are those that cuda.h declares, since Python's wheels bring no stub library to
# read names from. The file's own name starts without `lib`, so that ldconfig never offers it as a driver.

# stiletto_driver_functions(HEADER OUTPUT): writes a source with one refusing function for each of cuda.h.
function(stiletto_driver_functions header output)
  file(STRINGS "${header}" lines REGEX "CUDAAPI +cu[A-Z]|^cu[A-Z][A-Za-z0-9_]*\\(|^ *# *define +cu[A-Z]")
  set(names)
  foreach(line IN LISTS lines)
    # `CUresult CUDAAPI cuInit(...`, `#define cuCtxCreate cuCtxCreate_v4` and
    # `#define cuMemcpy __CUDA_API_PTDS(cuMemcpy)`, which names cuMemcpy_ptds.
    string(REGEX MATCHALL "cu[A-Z][A-Za-z0-9_]*" found "${line}")
    list(APPEND names ${found})
    if(line MATCHES "__CUDA_API_PT([DS])([SZ])\\(([A-Za-z0-9_]+)\\)")
      string(TOLOWER "_pt${CMAKE_MATCH_1}${CMAKE_MATCH_2}" suffix)
      list(APPEND names "${CMAKE_MATCH_3}${suffix}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(SORT names)
  list(LENGTH names count)
  if(count LESS 200)
    message(FATAL_ERROR "only ${count} driver functions were found in ${header}; is that CUDA's cuda.h?")
  endif()
  set(functions)
  set(table)
  foreach(name IN LISTS names)
    # Weak, so that the functions of driver_stand_in.cpp take precedence.
    string(APPEND functions "REFUSE(${name})\n")
    string(APPEND table "    {\"${name}\", reinterpret_cast<void*>(&${name})},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT
"// Generated from cuda.h by cmake/companions.cmake.
#include \"backends/cudnn/companions/driver_stand_in.hpp\"

#define REFUSE(name) \\
  extern \"C\" __attribute__((weak, visibility(\"default\"))) int name() { return stiletto_no_driver; }

@functions@
const StilettoDriverFunction stiletto_driver_functions[] = {
@table@    {nullptr, nullptr}};
")
endfunction()

set(driver_functions "${PROJECT_BINARY_DIR}/generated/driver_functions.cpp")
stiletto_driver_functions("${STILETTO_CUDA_INCLUDE}/cuda.h" "${driver_functions}")
add_library(stiletto_driver_stand_in MODULE
  "${PROJECT_SOURCE_DIR}/src/backends/cudnn/companions/driver_stand_in.cpp" "${driver_functions}")
target_include_directories(stiletto_driver_stand_in PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(stiletto_driver_stand_in PRIVATE stiletto_options)
target_link_options(stiletto_driver_stand_in PRIVATE "-Wl,-soname,libcuda.so.1")
set_target_properties(stiletto_driver_stand_in PROPERTIES
  PREFIX ""
  OUTPUT_NAME stiletto_driver_stand_in
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  NO_SONAME ON
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")

# The program that builds plans for other GPUs on a machine with a driver. It is only a main(): the library
# does the work.
add_executable(stiletto_plan_builder "${PROJECT_SOURCE_DIR}/src/backends/cudnn/companions/plan_builder.cpp")
target_include_directories(stiletto_plan_builder PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(stiletto_plan_builder PRIVATE stiletto_options stiletto)
set_target_properties(stiletto_plan_builder PROPERTIES
  OUTPUT_NAME stiletto-plan-builder
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")

# Whoever uses the library from this build finds them there.
add_dependencies(stiletto stiletto_driver_stand_in)
