# SPDX-License-Identifier: Apache-2.0
# Whether the cuDNN backend can be built, and from which headers: CUDA's and cuDNN's from a toolkit or from
# Python's nvidia wheels, cudnn-frontend's from .deps (scripts/bootstrap.sh puts it there). Headers are all it
# needs; the libraries are looked for at run time. Sets STILETTO_HAS_CUDNN and the target stiletto_cudnn_headers.

set(STILETTO_HAS_CUDNN OFF)
if(STILETTO_CUDA STREQUAL "OFF")
  return()
endif()

set(wheel_folder "${PROJECT_SOURCE_DIR}/.deps/nvidia")
find_path(STILETTO_CUDA_INCLUDE cuda_runtime.h
          HINTS "${wheel_folder}/cu13/include" "$ENV{CUDA_HOME}/include" "$ENV{CUDA_PATH}/include" /usr/local/cuda/include)
find_path(STILETTO_NVRTC_INCLUDE nvrtc.h HINTS "${wheel_folder}/cu13/include" "${STILETTO_CUDA_INCLUDE}")
find_path(STILETTO_CUDNN_INCLUDE cudnn_graph.h
          HINTS "${wheel_folder}/cudnn/include" "${STILETTO_CUDA_INCLUDE}")
find_path(STILETTO_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS "${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend/include")
mark_as_advanced(STILETTO_CUDA_INCLUDE STILETTO_NVRTC_INCLUDE STILETTO_CUDNN_INCLUDE STILETTO_CUDNN_FRONTEND_INCLUDE)

set(missing)
foreach(part CUDA NVRTC CUDNN CUDNN_FRONTEND)
  if(NOT STILETTO_${part}_INCLUDE)
    list(APPEND missing "STILETTO_${part}_INCLUDE")
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  if(STILETTO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STILETTO_CUDA=ON, but these folders were not found: ${missing}. Run scripts/bootstrap.sh --cuda, or set them.")
  endif()
  message(STATUS "cuDNN backend: not built (not found: ${missing}); scripts/bootstrap.sh --cuda fetches them")
  return()
endif()

set(STILETTO_HAS_CUDNN ON)
message(STATUS "cuDNN backend: CUDA ${STILETTO_CUDA_INCLUDE}, cuDNN ${STILETTO_CUDNN_INCLUDE}, frontend ${STILETTO_CUDNN_FRONTEND_INCLUDE}")
add_library(stiletto_cudnn_headers INTERFACE)
target_include_directories(stiletto_cudnn_headers SYSTEM INTERFACE
  "${STILETTO_CUDNN_FRONTEND_INCLUDE}" "${STILETTO_CUDNN_INCLUDE}" "${STILETTO_NVRTC_INCLUDE}" "${STILETTO_CUDA_INCLUDE}")
target_compile_definitions(stiletto_cudnn_headers INTERFACE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
