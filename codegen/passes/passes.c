/* SPDX-License-Identifier: Apache-2.0
 * passes.c - the table of passes and the loop that runs them. */
#include "codegen/passes/passes.h"

static const struct pass {
    const char *name;
    mo_pass_fn *run;
    enum { ALWAYS, LAYOUT, SMALL } when; /* LAYOUT, SMALL: for kernels of this machine; of 8-bit numbers */
} passes[] = {
    {"dead", mo_pass_dead, ALWAYS},
    {"identity", mo_pass_identity, ALWAYS},
    {"quantized operators", mo_pass_qoperators, ALWAYS},
    {"shared quantizers", mo_pass_shared_quantizers, ALWAYS},
    {"unsigned", mo_pass_unsigned, SMALL},
    {"quantized moves", mo_pass_quantized_moves, SMALL},
    {"small weights", mo_pass_small_weights, SMALL},
    {"scatter", mo_pass_scatter, ALWAYS},
    {"regions", mo_pass_regions, LAYOUT},
    {"explicit pads", mo_pass_explicit_pads, ALWAYS},
    {"taps", mo_pass_taps, ALWAYS},
    {"prefix", mo_pass_prefix, ALWAYS},
    {"einsum", mo_pass_einsum, ALWAYS},
    {"norm", mo_pass_norm, ALWAYS},
    {"rotary", mo_pass_rotary, ALWAYS},
    {"scaled attention", mo_pass_scaled_attention, ALWAYS},
    {"attention", mo_pass_attention, ALWAYS},
    {"heads", mo_pass_heads, ALWAYS},
    {"dead", mo_pass_dead, ALWAYS},
    {"gate", mo_pass_gate, ALWAYS},
    {"matmul", mo_pass_matmul, ALWAYS},
    {"affine", mo_pass_affine, ALWAYS},
    {"activation", mo_pass_activation, ALWAYS},
    {"dead", mo_pass_dead, ALWAYS},
    {"quantized convolutions", mo_pass_qconv, SMALL},
    {"fuse", mo_pass_fuse, ALWAYS},
    {"projections", mo_pass_projections, ALWAYS},
    {"carry", mo_pass_carry, ALWAYS},
    {"absorb pad", mo_pass_absorb_pad, ALWAYS},
    {"dead", mo_pass_dead, ALWAYS},
    {"images", mo_pass_images, LAYOUT},
    {"thin", mo_pass_thin, LAYOUT},
    {"excite", mo_pass_excite, ALWAYS},
    {"own quantizers", mo_pass_own_quantizers, SMALL},
    {"pointwise", mo_pass_pointwise, ALWAYS},
    {"recurrent", mo_pass_recurrent, LAYOUT},
    {"pick", mo_pass_pick, LAYOUT},
    {"dead", mo_pass_dead, ALWAYS},
    {"layout", mo_pass_layout, LAYOUT},
    {"view", mo_pass_view, LAYOUT},
    {"concat", mo_pass_concat, LAYOUT},
    {"halves", mo_pass_halves, LAYOUT},
    {"layer", mo_pass_layer, ALWAYS},
};

int mo_run_passes(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].when == LAYOUT && options->no_layout) continue;
        if (passes[i].when == SMALL && !g->keeps_small) continue;
        int rc = passes[i].run(g, err);
        if (!rc) rc = mo_graph_sort(g, err);
        if (!rc) rc = mo_graph_check(g, err);
        if (rc) return mo_fail_context(err, rc, "pass %s", passes[i].name);
    }
    return MOIRE_OK;
}
