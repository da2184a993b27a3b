/* SPDX-License-Identifier: Apache-2.0
 * writer.h - the writing side of the variant store (only `moire compile` has one).
 *
 * A writer has a work folder of its own inside the store, held by a lock, so that what a killed run left
 * behind is found and cleared by the next.  Files are written there, made durable and renamed into place
 * under the store's lock: a reader sees an entry whole or not at all. */
#ifndef MO_WRITER_H
#define MO_WRITER_H
#include "variants/store_format.h"

struct mo_writer;

/* Creates what is missing of the path; MOIRE_ESTORE when it cannot be written or breaks the trust rule. */
int mo_writer_open(const struct mo_env *env, const char *path, struct mo_writer **out, moire_error *err);
/* The same for another processor's folder (its name): for taking out what is there. */
int mo_writer_open_for(const struct mo_env *env, const char *path, const char *cpu, struct mo_writer **out,
                       moire_error *err);
void mo_writer_close(struct mo_writer *writer);
/* Folder for the caller's temporary files; emptied at open and close. */
const char *mo_writer_work(const struct mo_writer *writer);

/* Calls `fn` while no other writer works on the store and none can begin.  MOIRE_EBUSY: one does. */
int mo_writer_alone(struct mo_writer *writer, int (*fn)(void *ctx, moire_error *err), void *ctx,
                    moire_error *err);

/* Puts a variant into the store; one that is there and intact is kept.  key receives its name. */
int mo_writer_add(struct mo_writer *writer, const struct mo_store_entry *entry, const void *object,
                  const char *source, char key[MO_SHA256_HEX], moire_error *err);

/* Streams a file into the store, as <hh>/<name><suffix>: `fill` calls put(put_ctx, ...) for the bytes in
 * order and stops when that returns an error code. */
typedef int mo_writer_put(void *put_ctx, const void *bytes, size_t n);
int mo_writer_stream(struct mo_writer *writer, const char *name, const char *suffix,
                     int (*fill)(void *ctx, mo_writer_put *put, void *put_ctx, moire_error *err), void *ctx,
                     moire_error *err);
/* Takes a file out of the store again; nothing happens when it is not there. */
void mo_writer_remove(struct mo_writer *writer, const char *name, const char *suffix);
/* Makes a compiled model the answer for a stamp. */
int mo_writer_stamp(struct mo_writer *writer, const char *name, const struct mo_store_stamp *stamp,
                    moire_error *err);

/* One measured or discarded candidate, for the ranked list in the index. */
struct mo_ranked {
    char family[32], knobs[MO_STORE_KNOBS];
    double predicted_ns, min_ns; /* min_ns 0: discarded */
    char verdict[64];            /* "ok", "does not compile", "wrong result", ... */
};
/* Makes `index` (and the list behind it) the answer for its layer. */
int mo_writer_set(struct mo_writer *writer, const struct mo_store_index *index,
                  const struct mo_ranked *ranked, int n, moire_error *err);
/* Takes the best of a layer out of service, for what it did in a model (`why`, plain text): built-in kernels
 * serve instead, also in searches to come until one tries more candidates.  `index` is the layer's, as it is
 * now. */
int mo_writer_withdraw(struct mo_writer *writer, const struct mo_store_index *index, const char *why,
                       moire_error *err);
/* Makes `front` the list of implementations of its layer; those it names are in the store. */
int mo_writer_front(struct mo_writer *writer, const struct mo_store_front *front, moire_error *err);
#endif
