/* SPDX-License-Identifier: Apache-2.0
 * known_models.h - the models that a store was filled for: where their files are and how they were compiled,
 * so that all can be compiled again, for another processor or another version of moire.
 *
 * A note is an envelope like every description of the store, <store>/v1/models/<name>.json; it belongs to no
 * processor.  <name> is the digest of path, shapes and exactness. */
#ifndef MO_KNOWN_MODELS_H
#define MO_KNOWN_MODELS_H
#include "variants/store_format.h"

enum { MO_KNOWN_SHAPES = 16, MO_KNOWN_INPUT = 128 };

struct mo_known_model {
    char path[MO_STORE_PATH]; /* of the ONNX file, absolute */
    bool exact;
    int versions;  /* that it was tuned with at most; below 2: it was compiled only */
    double qos_ns; /* target that it was tuned for; 0: none */
    int n_shapes;
    struct mo_known_shape {
        char input[MO_KNOWN_INPUT];
        int rank;
        int64_t d[MOIRE_MAX_RANK];
    } shape[MO_KNOWN_SHAPES];
};

/* Fills in what was asked for; false: a name or a path is too long or no plain text, and cannot be noted. */
bool mo_known_set(const struct mo_env *env, const char *path, const moire_shape *shapes, int n, bool exact,
                  struct mo_known_model *out);
/* Puts the note into the store.  One that is there keeps its versions when the new one has none. */
int mo_known_note(const struct mo_env *env, const char *store, const struct mo_known_model *source,
                  moire_error *err);
/* All notes, by path; *out is for mo_free().  Those that are damaged are left out, with a line in the log. */
int mo_known_list(const struct mo_env *env, const char *store, struct mo_known_model **out, int *n,
                  moire_error *err);
/* Takes the notes of files that are gone out of the store; how many. */
int mo_known_forget(const struct mo_env *env, const char *store, bool dry_run);
bool mo_known_is_there(const struct mo_env *env, const struct mo_known_model *source);
/* Bytes of a note to a struct; MOIRE_ESTORE when anything is off.  Hostile input. */
int mo_known_parse(const char *bytes, size_t n, struct mo_known_model *out, moire_error *err);
#endif
