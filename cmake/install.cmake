# SPDX-License-Identifier: Apache-2.0
# Installation: headers, library, CMake package and licences.
