/* SPDX-License-Identifier: Apache-2.0
 * npy.h - tensors as NumPy files (.npy), in and out. */
#ifndef MO_NPY_H
#define MO_NPY_H
#include "runtime/base/env.h"

/* Reads a C-ordered little-endian array of numbers or booleans; data must be given to mo_free(). */
int mo_npy_read(const struct mo_env *env, const char *path, moire_tensor *out, moire_error *err);
/* The same without the elements: type, shape and bytes; data is NULL. */
int mo_npy_look(const struct mo_env *env, const char *path, moire_tensor *out, moire_error *err);
/* Writes under a temporary name, then renames. */
int mo_npy_write(const struct mo_env *env, const char *path, const moire_tensor *tensor, moire_error *err);
#endif
