/* SPDX-License-Identifier: Apache-2.0
 * gpulet_rows.c - the policies on machines of GPUs, one row each.  Published algorithms and what we serve
 * with are for service; variants of these that only show what a part is worth are for research, and so is the
 * search of all plans. */
#include "runtime/policy/gpulet.h"

/* Planners from INSS on decide by what was trained. */
enum {
    SBP,
    SBP_HALF,
    MPS,
    GSLICE,
    IGNITER,
    BEAM,
    BEAM_10,
    GPULET,
    GPULET_INT,
    IDEAL,
    MOIRE,
    OWN,
    DEFERRED,
    DEFERRED_OWN,
    TIGHT,
    ROOMY,
    STRETCHED,
    CAREFUL,
    CUT,
    SBP_CUT,
    INSS,
    INSS_NI
};
static const struct mo_gpulet_options options[] = {
    [SBP] = {.planner = "sbp"},
    [SBP_HALF] = {.planner = "sbp-half"},
    [MPS] = {.planner = "mps"},
    [GSLICE] = {.planner = "gslice"},
    [IGNITER] = {.planner = "igniter"},
    [BEAM] = {.planner = "beam"},
    [BEAM_10] = {.planner = "beam", .steps = 800},
    [GPULET] = {.planner = "gpulet"},
    [GPULET_INT] = {.planner = "gpulet-int"},
    [IDEAL] = {.planner = "ideal"},
    [MOIRE] = {.planner = "moire-gpu", .lend = true, .stretch = true},
    [OWN] = {.planner = "moire-gpu", .stretch = true},
    [DEFERRED] = {.planner = "moire-gpu", .deferred = true, .lend = true, .stretch = true},
    [DEFERRED_OWN] = {.planner = "moire-gpu", .deferred = true, .stretch = true},
    [TIGHT] = {.planner = "moire-gpu", .lend = true},
    [ROOMY] = {.planner = "moire-gpu", .lend = true, .burst = 2},
    [STRETCHED] = {.planner = "gpulet-int", .stretch = true},
    [CAREFUL] = {.planner = "moire-gpu", .lend = true, .stretch = true, .careful = true},
    [CUT] = {.planner = "moire-gpu", .lend = true, .stretch = true, .cut = true},
    [SBP_CUT] = {.planner = "sbp", .cut = true},
    [INSS] = {.planner = "inss"},
    [INSS_NI] = {.planner = "inss-ni"},
};

#define SERVER(label, text, which, seconds, study)                                                           \
    {                                                                                                        \
        .name = (label), .description = (text), .gpus = true, .research = (study),                           \
        .learned = (which) >= INSS, .simulated = (which) == MPS, .options = &options[which],                 \
        .state_bytes = sizeof(struct mo_gpulet_state), .init = mo_gpulet_init, .plan = mo_gpulet_plan,       \
        .plan_period_ns = (seconds)*INT64_C(1000000000), .dispatch = mo_gpulet_dispatch                      \
    }

static const struct mo_policy servers[] = {
    SERVER("moire-gpu", "lets by the planner moire-gpu, eager batches, idle lets lent, every 20 s", MOIRE, 20,
           false),
    SERVER("moire-gpu-5s", "the same, planned every 5 s", MOIRE, 5, true),
    SERVER("moire-gpu-1s", "the same, planned every second", MOIRE, 1, true),
    SERVER("moire-gpu-own", "moire-gpu, no let is lent", OWN, 20, true),
    SERVER("moire-gpu-deferred", "moire-gpu, batches begin at the last moment", DEFERRED, 20, true),
    SERVER("moire-gpu-deferred-own", "moire-gpu, deferred, no let is lent", DEFERRED_OWN, 20, true),
    SERVER("moire-gpu-tight", "moire-gpu, planned for the rates as they are", TIGHT, 20, true),
    SERVER("moire-gpu-roomy", "moire-gpu, not stretched, batches two deviations larger than the mean", ROOMY,
           20, true),
    SERVER("gpulet-int", "lets by gpu-let's algorithm with interference", GPULET_INT, 20, false),
    SERVER("gpulet-int-stretched", "gpulet-int, rates stretched as far as the GPUs serve", STRETCHED, 20,
           true),
    SERVER("gpulet", "lets by gpu-let's algorithm", GPULET, 20, false),
    SERVER("gslice", "lets by guided self-tuning, as in GSLICE", GSLICE, 20, false),
    SERVER("igniter", "lets by iGniter's formulas and placement", IGNITER, 20, false),
    SERVER("beam", "lets by search with a simulator in the loop, as AlpaServe's", BEAM, 20, false),
    SERVER("beam-x10", "the same with ten times the time to plan", BEAM_10, 20, false),
    SERVER("sbp", "squishy bin packing, whole GPUs", SBP, 20, false),
    SERVER("sbp-half", "squishy bin packing, half GPUs", SBP_HALF, 20, false),
    SERVER("moire-gpu-careful", "moire-gpu, best-effort batches by Orion's rule", CAREFUL, 20, true),
    SERVER("moire-gpu-cut", "moire-gpu, long batches cut at layers so that urgent ones may enter", CUT, 20,
           false),
    SERVER("sbp-cut", "sbp, long batches cut at layers so that urgent ones may enter", SBP_CUT, 20, true),
    SERVER("mps", "models side by side on whole GPUs that are not cut, simulated only", MPS, 20, true),
    SERVER("ideal", "lets by exhaustive search", IDEAL, 20, true),
    SERVER("inss", "lets by InSS's trained policy", INSS, 20, false),
    SERVER("inss-ni", "inss, lets planned as if neighbours did no harm", INSS_NI, 20, true),
};

const struct mo_policy *const *mo_policy_servers(void) {
    enum { N = sizeof servers / sizeof *servers };
    static const struct mo_policy *const rows[N + 1] = {
        &servers[0],  &servers[1],  &servers[2],  &servers[3],  &servers[4],  &servers[5],
        &servers[6],  &servers[7],  &servers[8],  &servers[9],  &servers[10], &servers[11],
        &servers[12], &servers[13], &servers[14], &servers[15], &servers[16], &servers[17],
        &servers[18], &servers[19], &servers[20], &servers[21], &servers[22], &servers[23]};
    return rows;
}
