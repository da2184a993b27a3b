/* SPDX-License-Identifier: Apache-2.0
 * passes.c - the table of passes and the loop that runs them. */
#include "codegen/passes/passes.h"

static const struct pass {
    const char *name;
    mo_pass_fn *run;
    bool host; /* layouts and small integers of this machine's kernels: devices have others */
} passes[] = {
    {"dead", mo_pass_dead, false},
    {"identity", mo_pass_identity, false},
    {"quantized operators", mo_pass_qoperators, false},
    {"shared quantizers", mo_pass_shared_quantizers, false},
    {"unsigned", mo_pass_unsigned, true},
    {"quantized moves", mo_pass_quantized_moves, true},
    {"small weights", mo_pass_small_weights, true},
    {"explicit pads", mo_pass_explicit_pads, false},
    {"norm", mo_pass_norm, false},
    {"attention", mo_pass_attention, false},
    {"dead", mo_pass_dead, false},
    {"gate", mo_pass_gate, false},
    {"matmul", mo_pass_matmul, false},
    {"affine", mo_pass_affine, false},
    {"activation", mo_pass_activation, false},
    {"dead", mo_pass_dead, false},
    {"quantized convolutions", mo_pass_qconv, true},
    {"fuse", mo_pass_fuse, false},
    {"projections", mo_pass_projections, false},
    {"carry", mo_pass_carry, false},
    {"absorb pad", mo_pass_absorb_pad, false},
    {"dead", mo_pass_dead, false},
    {"excite", mo_pass_excite, false},
    {"own quantizers", mo_pass_own_quantizers, true},
    {"pointwise", mo_pass_pointwise, false},
    {"layout", mo_pass_layout, true},
    {"view", mo_pass_view, true},
    {"concat", mo_pass_concat, true},
    {"layer", mo_pass_layer, false},
};

int mo_run_passes(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].host && options->no_layout) continue;
        int rc = passes[i].run(g, err);
        if (!rc) rc = mo_graph_sort(g, err);
        if (!rc) rc = mo_graph_check(g, err);
        if (rc) return mo_fail_context(err, rc, "pass %s", passes[i].name);
    }
    return MOIRE_OK;
}
