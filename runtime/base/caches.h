/* SPDX-License-Identifier: Apache-2.0
 * caches.h - the user's cache folders: the one rule by which library, command and bench find what the others
 * left there.
 *
 * `moire compile` writes where moire_config.store = NULL looks, so both must ask here.  The folder is
 * $XDG_CACHE_HOME/moire/<name>, or $HOME/.cache/moire/<name> when XDG_CACHE_HOME is unset or no absolute
 * path, or that below the home of the user database when HOME is neither.  These two variables are all that
 * the library reads of the environment, and a program with more rights than its user does not read them. */
#ifndef MO_CACHES_H
#define MO_CACHES_H
#include "runtime/base/error.h"
#include "runtime/base/sys.h"

enum { MO_CACHES_PATH = 4096 };

/* The folder as a real path, since its readers trust no symbolic links; it need not exist.  MOIRE_EINVAL:
 * nobody knows where the user lives; MOIRE_EIO: a part of the path cannot be looked at. */
int mo_caches_folder(const struct mo_sys *sys, const char *name, char *out, size_t n, moire_error *err);
/* `path` without symbolic links; what does not exist yet is kept as it is given. */
int mo_caches_real(const struct mo_sys *sys, const char *path, char *out, size_t n, moire_error *err);
#endif
