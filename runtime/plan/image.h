/* SPDX-License-Identifier: Apache-2.0
 * image.h - a compiled model as one run of bytes: the graph after the passes, the constants that its steps
 * read, the packed weights, and the solo times of its layers.
 *
 *   head      struct mo_image_head: sizes, the model's key, checksum of all that follows
 *   meta      the graph and the tables, as a stream of numbers and texts
 *   data      constants and packed weights, each 64-byte aligned
 *
 * Made to be mapped read-only and used where it lies: a graph made from an image points into it, and so do
 * the plan and its instances.  Weights are in it once: packed, where the plan uses them packed, and the plain
 * tensor is then *hollow*.  An image fits the machine kind and version that wrote it; its key says which.
 *
 * Reading checks the sum first and every count, index and range besides: damage is an error, never a crash.
 * It does not stand up to a forger, who could as well replace the code beside it (SECURITY.md). */
#ifndef MO_IMAGE_H
#define MO_IMAGE_H
#include "runtime/base/sum.h"
#include "runtime/plan/plan.h"

enum { MO_IMAGE_FORMAT = 2, MO_IMAGE_KEY = 64 };

struct mo_image_head {
    char magic[8];
    uint32_t format, endian;
    uint64_t bytes, meta_bytes, data_offset; /* whole image; meta; where the data begins */
    char key[MO_IMAGE_KEY];                  /* hexadecimal digits */
    struct mo_sum sum;                       /* of everything behind the head */
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

/* Head and checksum only: MOIRE_ESTORE when these bytes are not the whole image of that key. */
int mo_image_check(const void *image, size_t n, const char key[MO_IMAGE_KEY], moire_error *err);
/* A graph from an image, which must stay where it is until the graph and all made from it are gone.  `times`
 * belong to the graph. */
int mo_image_load(const struct mo_env *env, const void *image, size_t n, const char key[MO_IMAGE_KEY],
                  struct mo_graph **out, struct mo_image_times *times, moire_error *err);
#endif
