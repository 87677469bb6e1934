// SPDX-License-Identifier: Apache-2.0
// The library is built with hidden symbols; STILETTO_API marks what a program may link to, and the error
// types, whose type information has to be one and the same on both sides of a shared library for `catch` to
// work.
#pragma once

#define STILETTO_API __attribute__((visibility("default")))
