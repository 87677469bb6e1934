# SPDX-License-Identifier: Apache-2.0
# Whether the cuDNN backend can be built, and from which headers: CUDA's and cuDNN's from Python's nvidia
# wheels in .deps/nvidia or from a toolkit, cudnn-frontend's from .deps (scripts/bootstrap.sh --cuda fetches
# them). Headers are all it needs; the libraries are looked for at run time. Sets STILETTO_HAS_CUDNN and the
# target stiletto_cudnn_headers.

set(STILETTO_HAS_CUDNN OFF)
if(STILETTO_CUDA STREQUAL "OFF")
  message(STATUS "cuDNN backend: not built (STILETTO_CUDA=OFF)")
  return()
endif()

# Like the minimum versions in src/backends/cudnn/libraries.hpp; cudnn-frontend as tested.
set(minimum_CUDA 12.0)
set(minimum_CUDNN 9.10)
set(minimum_CUDNN_FRONTEND 1.32)

set(wheels "${PROJECT_SOURCE_DIR}/.deps/nvidia")
file(GLOB toolkits /usr/local/cuda-*)
list(SORT toolkits COMPARE NATURAL ORDER DESCENDING)
set(toolkits "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda ${toolkits})
list(TRANSFORM toolkits APPEND "/include")
find_path(STILETTO_CUDA_INCLUDE cuda_runtime.h HINTS "${wheels}/cu13/include" ${toolkits})
find_path(STILETTO_NVRTC_INCLUDE nvrtc.h HINTS "${STILETTO_CUDA_INCLUDE}")
find_path(STILETTO_CUDNN_INCLUDE cudnn_graph.h HINTS "${wheels}/cudnn/include" "${STILETTO_CUDA_INCLUDE}" ${toolkits})
find_path(STILETTO_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS "${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend/include")
find_path(STILETTO_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS "${STILETTO_CUDA_INCLUDE}" "${wheels}/cu13/include" ${toolkits})
mark_as_advanced(STILETTO_NVTX_INCLUDE STILETTO_CUDA_INCLUDE STILETTO_NVRTC_INCLUDE STILETTO_CUDNN_INCLUDE STILETTO_CUDNN_FRONTEND_INCLUDE)

# stiletto_header_number(FILE NAME): NUMBER in the caller is what the header defines NAME as, else 0.
function(stiletto_header_number file name)
  set(NUMBER 0 PARENT_SCOPE)
  if(EXISTS "${file}")
    file(STRINGS "${file}" line REGEX "^#define +${name} +[0-9]+" LIMIT_COUNT 1)
    if(line MATCHES "${name} +([0-9]+)")
      set(NUMBER "${CMAKE_MATCH_1}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# What stands in the way, a clause each.
set(problems)
foreach(part CUDA NVRTC CUDNN CUDNN_FRONTEND)
  if(NOT STILETTO_${part}_INCLUDE)
    list(APPEND problems "STILETTO_${part}_INCLUDE was not found")
  endif()
endforeach()
if(NOT problems)
  stiletto_header_number("${STILETTO_CUDA_INCLUDE}/cuda.h" CUDA_VERSION)
  math(EXPR major "${NUMBER} / 1000")
  math(EXPR minor "${NUMBER} % 1000 / 10")
  set(version_CUDA "${major}.${minor}")
  stiletto_header_number("${STILETTO_CUDNN_INCLUDE}/cudnn_version.h" CUDNN_MAJOR)
  set(major "${NUMBER}")
  stiletto_header_number("${STILETTO_CUDNN_INCLUDE}/cudnn_version.h" CUDNN_MINOR)
  set(version_CUDNN "${major}.${NUMBER}")
  set(frontend_version "${STILETTO_CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h")
  stiletto_header_number("${frontend_version}" CUDNN_FRONTEND_MAJOR_VERSION)
  set(major "${NUMBER}")
  stiletto_header_number("${frontend_version}" CUDNN_FRONTEND_MINOR_VERSION)
  set(version_CUDNN_FRONTEND "${major}.${NUMBER}")
  foreach(part CUDA CUDNN CUDNN_FRONTEND)
    if(version_${part} VERSION_LESS minimum_${part})
      list(APPEND problems "${part} in ${STILETTO_${part}_INCLUDE} is ${version_${part}} and has to be ${minimum_${part}} or newer")
    endif()
  endforeach()
endif()
if(problems)
  list(JOIN problems ", " problems)
  if(STILETTO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STILETTO_CUDA=ON, but ${problems}. Run scripts/bootstrap.sh --cuda, or set the folders (-DSTILETTO_CUDNN_INCLUDE=... and so on).")
  endif()
  message(STATUS "cuDNN backend: not built (${problems}); scripts/bootstrap.sh --cuda fetches what it needs")
  return()
endif()

set(STILETTO_HAS_CUDNN ON)
message(STATUS "cuDNN backend: CUDA ${version_CUDA} (${STILETTO_CUDA_INCLUDE}), cuDNN ${version_CUDNN} (${STILETTO_CUDNN_INCLUDE}), cudnn-frontend ${version_CUDNN_FRONTEND}")
add_library(stiletto_cudnn_headers INTERFACE)
# Vendor headers in the order frontend, cuDNN, CUDA: /usr/include may hold an older cuDNN beside a toolkit.
target_include_directories(stiletto_cudnn_headers SYSTEM INTERFACE
  "${STILETTO_CUDNN_FRONTEND_INCLUDE}" "${STILETTO_CUDNN_INCLUDE}" "${STILETTO_NVRTC_INCLUDE}" "${STILETTO_CUDA_INCLUDE}")
target_compile_definitions(stiletto_cudnn_headers INTERFACE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
# Names for profilers, which the backend can do without.
if(STILETTO_NVTX_INCLUDE)
  target_include_directories(stiletto_cudnn_headers SYSTEM INTERFACE "${STILETTO_NVTX_INCLUDE}")
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/backends/cudnn/profiler_range.cpp" APPEND PROPERTY
    COMPILE_DEFINITIONS STILETTO_HAS_NVTX=1)
else()
  message(STATUS "NVTX: nvtx3/nvToolsExt.h was not found, so profilers show no names; it comes with a CUDA toolkit or Python's nvidia-nvtx (STILETTO_NVTX_INCLUDE)")
endif()
