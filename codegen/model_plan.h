/* SPDX-License-Identifier: Apache-2.0
 * model_plan.h - the plan of a model file, by the shorter way that there is: from the compiled model that
 * `moire compile` has left in the store, or from ONNX, by import, passes and packing.
 *
 * Both give the same kernels and so the same answers.  A compiled model is one of the passes of a server and
 * of one precision and shape; what is asked for otherwise is made from ONNX.  moire_load() does the same,
 * but shares the constants of ONNX between tenants (runtime/serve/common.h). */
#ifndef MO_MODEL_PLAN_H
#define MO_MODEL_PLAN_H
#include "codegen/frontend.h"
#include "runtime/plan/compiled.h"

struct mo_model_ask {
    const struct mo_env *env;
    const char *path;
    const struct mo_frontend_options *front;
    const struct mo_plan_options *planning;
    /* as in struct mo_compiled_ask; look is called again when a compiled model turns out to be damaged */
    int n_found;
    int (*look)(void *ctx, const struct mo_graph *graph, moire_error *err);
    void *look_ctx;
};

/* It stays where it is until it is closed. */
struct mo_model_plan {
    struct mo_plan *plan;
    struct mo_compiled compiled; /* file.n: bytes that the plan lies in; 0: it is from ONNX */
};

int mo_model_plan_open(const struct mo_model_ask *ask, struct mo_model_plan *out, moire_error *err);
/* After everything made from the plan is gone; fine after a failed open. */
void mo_model_plan_close(struct mo_model_plan *model);
#endif
