/* SPDX-License-Identifier: Apache-2.0
 * memory_file.h - an environment in which every file that is opened holds the fuzzer's bytes. */
#ifndef TESTS_MEMORY_FILE_H
#define TESTS_MEMORY_FILE_H
#include "runtime/base/env.h"

struct memory_file {
    struct mo_sys sys;
    const uint8_t *bytes;
    size_t n, at;
};

/* One file is open at a time.  The environment refers to *memory and to the bytes. */
struct mo_env memory_file_env(struct memory_file *memory, const uint8_t *bytes, size_t n);
#endif
