/* SPDX-License-Identifier: Apache-2.0
 * compiled.h - compiled kernels for the layers of one graph: for every layer a random point of a random
 * family that takes it, not the best one, so that all families and knobs are met.  Objects are kept in a
 * folder under the digest of their C. */
#ifndef MO_DT_COMPILED_H
#define MO_DT_COMPILED_H
#include "codegen/family/family.h"
#include "tests/differential/random.h"

enum { DT_COMPILED = 64 };

struct dt_kernel {
    char signature[256];
    const struct mo_emit_family *family;
    struct mo_point point;
    void *code;
    struct mo_variant variant;
};

struct dt_compiled {
    const struct mo_env *env;
    const char *folder;
    int most;                /* kernels, of layers from a random one on; 0 = of all layers */
    int n, compiled, reused; /* kernels of this graph; of them by the compiler, from the folder */
    struct dt_kernel kernel[DT_COMPILED];
    const char *family; /* only kernels of this family; NULL = any */
    /* Text of the emitted C that is replaced before it is compiled, for canaries; NULL = none. */
    const char *from, *to;
    int replaced;
};

/* Chooses, emits, compiles and loads.  MOIRE_ECOMPILER, MOIRE_EIO: see the message. */
int dt_compile(struct dt_compiled *c, const struct mo_graph *graph, enum mo_isa isa, struct dt_random *random,
               moire_error *err);
void dt_compiled_unload(struct dt_compiled *c);
/* As in struct mo_plan_options; ctx is a struct dt_compiled. */
bool dt_compiled_find(void *ctx, const char *signature, struct mo_variant *out);
#endif
