/* SPDX-License-Identifier: Apache-2.0
 * publish.h - files that appear whole or not at all. */
#ifndef MO_BENCH_PUBLISH_H
#define MO_BENCH_PUBLISH_H
#include "runtime/base/env.h"

/* Writes n bytes to "PATH.part", then renames it to PATH. */
int mo_bench_publish(const struct mo_env *env, const char *path, const char *bytes, size_t n,
                     moire_error *err);
#endif
