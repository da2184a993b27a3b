/* SPDX-License-Identifier: Apache-2.0
 * ceiling.h - what this machine can do at most, measured now: multiply-adds on operands in L1, and bandwidth
 * of every level of memory.  What a layer needs of both is the roofline it is judged by. */
#ifndef MO_BENCH_CEILING_H
#define MO_BENCH_CEILING_H
#include <jansson.h>
#include "bench/kernels/probe/probe.h"
#include "runtime/base/env.h"

enum mo_level { MO_LEVEL_L1, MO_LEVEL_L2, MO_LEVEL_L3, MO_LEVEL_MEMORY, MO_LEVELS };

struct mo_ceiling {
    enum mo_isa isa;
    int threads;
    double gf[MO_PROBE_FORMS]; /* GF/s of all threads together, by form */
    double fma_gf;             /* the best of them: the ceiling */
    struct {
        int64_t capacity;        /* bytes that fit for all threads together; INT64_MAX: memory */
        int64_t tried;           /* bytes of each thread's probe */
        double read_gb, copy_gb; /* GB/s of all threads; a copy counts what it reads and what it writes */
    } level[MO_LEVELS];
};

/* Takes about 0.3 s.  All threads work at the same time. */
int mo_ceiling_measure(const struct mo_env *env, enum mo_isa isa, int threads, struct mo_ceiling *out,
                       moire_error *err);
/* The multiply-adds alone, 20 ms: has the machine changed its pace since? */
int mo_ceiling_again(const struct mo_env *env, const struct mo_ceiling *old, double *fma_gf,
                     moire_error *err);

/* The least time a layer can take, ns, and which limit that is: "fma", or the level that holds its working
 * set (inputs, weights and outputs together), "L2". */
double mo_ceiling_bound(const struct mo_ceiling *c, double flops, double bytes, const char **limit);
const char *mo_level_name(enum mo_level level);
/* {"isa", "threads", "fma_gflops", "forms": {...}, "levels": [{"level", "read_gb_s", "copy_gb_s", ...}]} */
json_t *mo_ceiling_json(const struct mo_ceiling *c);
/* Prints such an object; after_gf: the multiply-adds at the end of the run, 0 = not measured. */
void mo_ceiling_print(const json_t *ceiling, double after_gf);
#endif
