/* SPDX-License-Identifier: Apache-2.0
 * paths.h - the folders that the flags of the command name, and those they mean when they are not given: the
 * user's cache folders (runtime/base/caches.h). */
#ifndef MO_PATHS_H
#define MO_PATHS_H
#include <stddef.h>
#include "runtime/base/error.h"

enum { MO_PATH_CAP = 4096 };

/* The store: --store's value or the default one, as a real path. */
int mo_path_store(const char *given, char *out, size_t n, moire_error *err);

/* The same for commands that only read it: MOIRE_EIO when --store names a folder that is not there. */
int mo_path_store_there(const char *given, char *out, size_t n, moire_error *err);
/* The folder of compiled GPU programs: --device-cache's value or the default one, as a real path in `out`; ""
 * (nothing is kept) when there is none. */
const char *mo_path_device_cache(const char *given, char *out, size_t n);

struct mo_env;
struct mo_store;
/* The model that a command line names: a name of the zoo that is no file becomes a file in the cache, built
 * at its first use.  *model is the name of the file, in out[n] then, and what was given otherwise. */
int mo_path_model(const struct mo_env *env, const char *given, char *out, size_t n, const char **model,
                  moire_error *err);
/* Makes a folder that is to be written into; its parent must be there: MOIRE_EIO names what is missing. */
int mo_path_make_folder(const struct mo_env *env, const char *folder, moire_error *err);
/* The same without folder and ".onnx": the name by which `moire sim` looks. */
void mo_path_bare(const char *given, char *out, size_t n);
/* Says on standard error when the store at this path has kernels, and none for this processor. */
void mo_path_say_elsewhere(const struct mo_env *env, const char *store);
/* Opens that store for reading.  One that was asked for must be usable; for the default one a warning on
 * standard error is enough, *out is NULL and the built-in kernels serve. */
int mo_path_open_store(const struct mo_env *env, const char *given, struct mo_store **out, moire_error *err);
#endif
