/* SPDX-License-Identifier: Apache-2.0
 * engine_bed.h - for tests: the live engine on a toy plugin, with tenants, queries, and a policy that makes
 * trouble. */
#ifndef ENGINE_BED_H
#define ENGINE_BED_H
#include <stdatomic.h>
#include "runtime/engine/engine.h"
#include "runtime/engine/engine_gpu.h"
#include "tests/unit/gpu/child_case.h"
#include "tests/unit/gpu/toy_gpu.h"

enum {
    BED_GPUS = 2,
    BED_UNITS = 4,
    BED_TENANTS = 3,
    BED_SEGMENTS = 4,
    BED_LARGEST = 8,
    BED_QUERIES = 400,
    BED_BUCKETS = 4,
    BED_AHEAD_NS = 50000
};

/* The policy's options and state: random lets, random blocks. */
struct bed_trouble {
    uint64_t rng;
    bool whole, still; /* never cuts batches; never changes its plan */
    struct mo_lets_plan plan;
};
uint64_t bed_random(struct bed_trouble *s, uint64_t n);

struct bed_query {
    float x, y;
    float *in, *out; /* x and y, or the like in staging memory */
    _Atomic int answers, releases;
    int code, tenant;
    int64_t arrival, start;
    uint64_t handle;
};

struct bed {
    struct mo_env env;
    struct toy_gpu toy;
    struct child_case child;
    float *staging; /* not NULL: the toy is in a child process */
    struct mo_gpus gpus;
    struct bed_trouble options;
    struct mo_policy policy;
    struct mo_profile *profile;
    struct mo_share_profile *share;
    const struct mo_share_profile *kinds[MO_PLAN_KINDS];
    struct mo_engine *engine;
    struct mo_device *device; /* its only one */
    int tenant[BED_TENANTS];
    /* may be set before they are opened */
    int priority[BED_TENANTS];
    int64_t qos_ns[BED_TENANTS];
    double declared;
    int n, accepted;
    struct bed_query query[BED_QUERIES * 2];
};

/* policy NULL: the one that makes trouble. `stretch`: times that profiles say, of the toy's usual ones; the
 * toy takes as long. */
struct bed *bed_create(const struct mo_policy *policy, bool whole, bool still, int stretch);
/* The one that makes trouble, on a toy in a child process. */
struct bed *bed_create_in_child(void);
int bed_open(struct bed *b, int i, moire_error *err);
void bed_open_all(struct bed *b);
/* NULL: it was refused. */
struct bed_query *bed_submit(struct bed *b, int i);
void bed_wait(struct bed *b, struct bed_query *q);
/* Bursts of n queries, with some cancelled on the way. */
void bed_load(struct bed *b, int n, int cancel_one_in);
/* Every query was answered once and rightly, and nothing is left behind; frees the bed. */
void bed_close(struct bed *b);
#endif
