/* SPDX-License-Identifier: Apache-2.0
 * upkeep.h - what a variant store holds, whether it is whole, and taking out what nothing needs any more.
 *
 * A file is *needed* when something current leads to it: indices, fronts and stamps stand for themselves, a
 * kernel is needed by the index or the front of its layer, a compiled model by a stamp.  *Stale* is what
 * another version of moire made; it can serve no more.  Files that the store does not know are not looked at
 * and never removed. */
#ifndef MO_UPKEEP_H
#define MO_UPKEEP_H
#include "variants/store_format.h"

enum mo_stored_kind {
    MO_STORED_INDEX,
    MO_STORED_FRONT,
    MO_STORED_STAMP,
    MO_STORED_ENTRY,
    MO_STORED_CODE,
    MO_STORED_SOURCE,
    MO_STORED_MODEL,
    MO_STORED_KINDS
};
enum mo_stored_state {
    MO_STORED_NEEDED,
    MO_STORED_UNNEEDED,
    MO_STORED_STALE,
    MO_STORED_DAMAGED,
    MO_STORED_STATES
};
const char *mo_stored_kind_name(enum mo_stored_kind kind);
const char *mo_stored_suffix(enum mo_stored_kind kind);
const char *mo_stored_state_name(enum mo_stored_state state);

/* One file. */
struct mo_stored {
    char name[MO_SHA256_HEX]; /* before the suffix */
    enum mo_stored_kind kind;
    enum mo_stored_state state;
    int64_t bytes;
    int64_t modified;           /* ns since 1970 */
    char family[32];            /* entries */
    char digest[MO_SHA256_HEX]; /* entries: of the object; stamps: name of the compiled model */
    char label[MO_STORE_PATH];  /* signature of the layer; stamps: path of the ONNX file */
    int verified, unverified;   /* stamps: layers, as in struct mo_store_stamp, */
    double error;               /* and the largest error */
    char why[160];              /* not needed: the reason */
};

struct mo_upkeep {
    const struct mo_env *env;
    char folder[4096]; /* <store>/v1/<cpu> */
    int n, cap;
    struct mo_stored *item; /* by name, then kind */
};

/* Appends every file of a store's kinds below u->folder, as yet unneeded, in no order (upkeep_list.c).
 * MOIRE_ENOMEM, MOIRE_ESTORE: a folder breaks the trust rule. */
int mo_upkeep_list(struct mo_upkeep *u);

/* Lists a CPU's folder of a store (cpu NULL: this machine's) and reads its descriptions.  A folder that is
 * not there is an empty one.  MOIRE_ESTORE: it cannot be read or breaks the trust rule. */
int mo_upkeep_open(const struct mo_env *env, const char *store, const char *cpu, struct mo_upkeep *out,
                   moire_error *err);
void mo_upkeep_close(struct mo_upkeep *upkeep);

/* Reads all code and models that are needed and compares their checksums; items that fail become damaged.
 * `progress` is called with the bytes read so far and in all and returns false to stop (MOIRE_EINTERRUPTED);
 * NULL: none. */
int mo_upkeep_check(struct mo_upkeep *upkeep, bool (*progress)(void *ctx, int64_t done, int64_t total),
                    void *ctx, moire_error *err);

/* What mo_upkeep_clean() would take out. */
int64_t mo_upkeep_surplus(const struct mo_upkeep *upkeep, int *files);
/* Checks the folder of this machine and takes out all that is not needed, while no compilation runs
 * (MOIRE_EBUSY).  Whoever has a file open keeps it.  *after: what is left; *files and *bytes: what went. */
int mo_upkeep_clean(const struct mo_env *env, const char *store, struct mo_upkeep *after, int *files,
                    int64_t *bytes, moire_error *err);
#endif
