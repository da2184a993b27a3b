/* SPDX-License-Identifier: Apache-2.0
 * zoo_repository.h - a folder for `moire serve` with the applications of gpu-let (ATC 2022): networks of the
 * zoo, and pipelines of them (docs/pipelines.md). */
#ifndef MO_ZOO_REPOSITORY_H
#define MO_ZOO_REPOSITORY_H
#include <jansson.h>
#include "runtime/base/env.h"

/* Writes it; the folder is made where it is not there, its parent must be.  all: not NULL: an array, which
 * gets an object for each file. */
int mo_zoo_repository(const struct mo_env *env, const char *folder, json_t *all, moire_error *err);
#endif
