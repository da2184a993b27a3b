/* SPDX-License-Identifier: Apache-2.0
 * image.h - a compiled model as one run of bytes: the graph after the passes, the constants that its steps
 * read, the packed weights, and the solo times of its layers.
 *
 *   head      struct mo_image_head: sizes, the model's key, checksum of itself, meta and sums
 *   meta      the graph and the tables, as a stream of numbers and texts
 *   sums      struct mo_sum of every MO_IMAGE_PART bytes of data; they end where the data begins
 *   data      constants and packed weights, each 64-byte aligned
 *
 * Made to be mapped read-only and used where it lies: a graph made from an image points into it, and so do
 * the plan and its instances.  Weights are in it once: packed, where the plan uses them packed, and the plain
 * tensor is then *elided*.  An image fits the machine kind and version that wrote it; its key says which.  It
 * has the graph as the passes of its time left it: who changes what they or packing give counts
 * MO_IMAGE_FORMAT up, or users keep the old graph until they compile again under another version.
 *
 * Reading checks the sum of the meta first and every count, index and range besides: damage is an error,
 * never a crash.  The data may be checked while a plan is made of the graph, by a thread of its own besides;
 * nothing may run before that has ended well.  It does not stand up to a forger, who could as well replace
 * the code beside it (SECURITY.md). */
#ifndef MO_IMAGE_H
#define MO_IMAGE_H
#include <stdatomic.h>
#include "runtime/base/sum.h"
#include "runtime/plan/plan.h"

enum { MO_IMAGE_FORMAT = 12, MO_IMAGE_KEY = 64, MO_IMAGE_PART = 1 << 20 };

struct mo_image_head {
    char magic[8];
    uint32_t format, endian;
    uint64_t bytes, meta_bytes, data_offset; /* whole image; meta; where the data begins */
    char key[MO_IMAGE_KEY];                  /* hexadecimal digits */
    struct mo_sum sum;                       /* mo_image_sum() of everything before the data */
    char pad[24];
};

/* Solo time of every layer at some core counts, ns: row i, [n_layers], is at cores[i]. */
struct mo_image_times {
    int n, n_layers;
    const int64_t *cores;
    const int64_t *ns;
};

/* Writes a plan that was built while its graph recorded places (mo_image_record).  `put` gets the bytes in
 * order and returns 0 or an error code, which ends the writing. */
int mo_image_write(const struct mo_plan *plan, const char key[MO_IMAGE_KEY],
                   const struct mo_image_times *times, int (*put)(void *ctx, const void *bytes, size_t n),
                   void *ctx, moire_error *err);
/* Makes binders record the places of packed weights: before the plan is built. */
bool mo_image_record(struct mo_graph *graph);

/* How many parts data of so many bytes has. */
static inline uint64_t mo_image_parts(uint64_t bytes) {
    return (bytes + MO_IMAGE_PART - 1) / MO_IMAGE_PART;
}

/* Of the head, its own field counting as zeros, and the n bytes behind it. */
struct mo_sum mo_image_sum(const struct mo_image_head *head, const void *rest, size_t n);
/* All checksums: MOIRE_ESTORE when these bytes are not the whole image of that key. */
int mo_image_check(const void *image, size_t n, const char key[MO_IMAGE_KEY], moire_error *err);
/* Without those of the data. */
int mo_image_check_head(const void *image, size_t n, const char key[MO_IMAGE_KEY], moire_error *err);

/* Those of the data, in the course of being checked.  It stays where it is from begin to end. */
struct mo_image_checking {
    const struct mo_env *env;
    const char *data;
    uint64_t bytes;
    const struct mo_sum *sum;
    uint32_t n_parts;
    _Atomic uint32_t next, bad;
    struct mo_thread thread;
    bool helped; /* the thread runs */
};
/* After the head's check; helper: a thread starts on it (it goes without when there is none to be had).  One
 * of the two others must follow. */
void mo_image_check_begin(const struct mo_env *env, const void *image, bool helper,
                          struct mo_image_checking *c);
/* Takes part in the rest.  MOIRE_ESTORE: damaged. */
int mo_image_check_end(struct mo_image_checking *c, moire_error *err);
/* Ends it without a result; fine after either end. */
void mo_image_check_leave(struct mo_image_checking *c);

/* A graph from an image, which must stay where it is until the graph and all made from it are gone.  Checks
 * the head, not the data.  `times` belong to the graph. */
int mo_image_load(const struct mo_env *env, const void *image, size_t n, const char key[MO_IMAGE_KEY],
                  struct mo_graph **out, struct mo_image_times *times, moire_error *err);
#endif
