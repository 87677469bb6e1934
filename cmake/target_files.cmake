# SPDX-License-Identifier: Apache-2.0
# The files of targets/ as a source of the library, so that a program needs no data file beside it.

file(GLOB target_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/targets/*.json")
list(SORT target_files)
set(rows)
foreach(file IN LISTS target_files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" content)
  string(APPEND rows "    {\"${name}\", R\"json(${content})json\"},\n")
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endforeach()
set(STILETTO_TARGET_SOURCE "${PROJECT_BINARY_DIR}/generated/target_files.cpp")
file(CONFIGURE OUTPUT "${STILETTO_TARGET_SOURCE}" @ONLY CONTENT
"// Generated from targets/*.json by cmake/target_files.cmake.
#include \"backends/cudnn/target_json.hpp\"

namespace stiletto::detail::cudnn {

const std::vector<TargetFile>& target_files() {
  static const auto& files = *new std::vector<TargetFile>{
@rows@  };
  return files;
}

}  // namespace stiletto::detail::cudnn
")
