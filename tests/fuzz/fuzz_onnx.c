/* SPDX-License-Identifier: Apache-2.0
 * fuzz_onnx.c - libFuzzer target: any bytes into the importer, inference, folding and all passes.
 * Small limits keep a run short; a graph that comes out must hold its invariants. */
#include <stdlib.h>
#include "codegen/frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    struct mo_env env = mo_env_default();
    struct mo_graph *g = NULL;
    moire_error err = {0};
    env.limits.tensor_bytes = 1 << 20;
    env.limits.fold_bytes = 64 << 10;
    env.limits.folded_bytes = 4 << 20;
    env.limits.fold_steps = 1 << 22;
    env.limits.nodes = 200;
    env.limits.tensors = 1000;
    int rc = mo_frontend_parse(&env, bytes, n, NULL, NULL, &g, &err);
    if (!rc && mo_graph_check(g, &err)) abort();
    if (rc && (!err.code || !err.message[0])) abort(); /* every refusal says why */
    mo_graph_destroy(g);
    return 0;
}
