/* SPDX-License-Identifier: Apache-2.0
 * replay_options.c - see replay_options.h. */
#include "tools/moire/replay_options.h"

#include "tools/moire/bench_options.h"

int mo_replay_options_take(struct mo_bench_replay_options *o, struct mo_args *args, bool *took,
                           moire_error *err) {
    *took = true;
    if (mo_args_flag(args, "--costs", true)) {
        o->costs = args->value;
        o->pieces |= MO_REPLAY_MEASURED;
        if (!o->costs) return mo_bench_bad_flag(err, "--costs", NULL, "needs a trace");
    } else if (mo_args_flag(args, "--measured", false)) {
        o->pieces |= MO_REPLAY_MEASURED;
    } else if (mo_args_flag(args, "--speed", false)) {
        o->pieces |= MO_REPLAY_MEASURED | MO_REPLAY_LATE | MO_REPLAY_SPEED | MO_REPLAY_STALLS;
    } else {
        *took = false;
    }
    return MOIRE_OK;
}
