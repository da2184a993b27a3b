/* SPDX-License-Identifier: Apache-2.0
 * store.h - the reader of the variant store: finds the best compiled variant of a layer and loads it.
 *
 * Trust: the store belongs to the effective user or root, nobody else may write into it or into a folder
 * above it, and no component of its path is a symbolic link (give the real path).  A folder that breaks this
 * is refused as a whole.  An entry that is stale, damaged or does not fit is skipped with one log line and
 * counted; the generic kernel serves.  Nothing here writes.  Layout and file forms: store_format.h. */
#ifndef MO_STORE_H
#define MO_STORE_H
#include "runtime/base/trusted.h"
#include "variants/kernel.h"

struct mo_store;
struct mo_store_index; /* store_format.h */
struct mo_store_front;

/* What happened since the store was opened. */
struct mo_store_stats {
    int64_t found;   /* layers served by a compiled variant */
    int64_t missing; /* no variant there: run `moire compile` */
    int64_t stale;   /* made by another generator or ABI version, or for more ISA than allowed */
    int64_t damaged; /* checksum, form, ownership or ELF policy */
};

/* Opens the store at `path`.  A store that does not exist yet is an empty one.  MOIRE_ESTORE: it breaks the
 * trust rule or cannot be read; the caller goes on without a store. */
int mo_store_open(const struct mo_env *env, const char *path, struct mo_store **out, moire_error *err);
bool mo_store_is_there(const struct mo_store *store); /* it has a folder for this processor */
/* One line, when the store at `path` has kernels of other processors and none of this one: whose, and what to
 * do. False, and out is "": all is well, or there is nothing at all. */
bool mo_store_elsewhere(const struct mo_env *env, const char *path, char *out, size_t n);
void mo_store_close(struct mo_store *store); /* unloads the code: no variant may be in use; NULL is fine */

/* The best variant of a layer for an ISA level.  False when there is none that can be trusted.  Thread-safe;
 * answers are cached.  out->run and out->name stay valid until mo_store_close(). */
bool mo_store_find(const struct mo_store *store, const char *signature, enum mo_isa isa,
                   struct mo_variant *out);
/* --- versions: several implementations of one layer, for several levels of pressure and numbers of cores  */
enum { MO_STORE_LEVELS = 6, MO_STORE_VERSIONS = 5 };
struct mo_store_version {
    struct mo_variant variant;
    double ns[MO_STORE_LEVELS]; /* best time on one core at pressure 0, 1/5, ... 1; all that of 0 when it was
                                   measured without pressure only */
    int cores;                  /* more than one: */
    double part_ns;             /* best time of the core with most to do when so many split it, 0: unknown */
};
/* The versions of a layer: what mo_store_find() gives is the first, the others follow; their number, 0 when
 * there are none beside it or not all can be trusted.  As mo_store_find() otherwise. */
int mo_store_versions(const struct mo_store *store, const char *signature, enum mo_isa isa,
                      struct mo_store_version out[MO_STORE_VERSIONS]);
/* All that `moire tune` measured of a layer; false when there is nothing current. */
bool mo_store_read_front(const struct mo_store *store, const char *signature, enum mo_isa isa,
                         struct mo_store_front *out);
/* Time at a pressure from 0 to 1, between the measured levels. */
static inline double mo_version_ns(const double ns[MO_STORE_LEVELS], double pressure) {
    double at = (pressure < 0 ? 0 : pressure > 1 ? 1 : pressure) * (MO_STORE_LEVELS - 1);
    int i = at < MO_STORE_LEVELS - 1 ? (int)at : MO_STORE_LEVELS - 2;
    return ns[i] + (at - i) * (ns[i + 1] - ns[i]);
}

/* The index of a layer when it and what it points to are intact and current; not counted, not cached. */
bool mo_store_peek(const struct mo_store *store, const char *signature, enum mo_isa isa,
                   struct mo_store_index *index);
struct mo_store_stats mo_store_stats(const struct mo_store *store);

/* <hh>/<name><suffix>, at most `limit` bytes; mo_trusted_close() gives it back. */
int mo_store_open_file(const struct mo_store *store, const char *name, const char *suffix, int64_t limit,
                       struct mo_trusted_file *out, moire_error *err);
/* Counts an entry that had to be skipped. */
void mo_store_note(const struct mo_store *store, bool stale);
#endif
