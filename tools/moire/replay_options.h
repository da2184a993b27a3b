/* SPDX-License-Identifier: Apache-2.0
 * replay_options.h - the flags of a replay that `moire whatif` and `moire sim --replay` share. */
#ifndef MO_REPLAY_OPTIONS_H
#define MO_REPLAY_OPTIONS_H
#include "bench/sim/replay.h"
#include "tools/moire/verb.h"

#define MO_REPLAY_USAGE                                                                                      \
    "  --measured           blocks take and cost what they did in the recording, tenant by tenant, not\n"    \
    "                       what the profiles say\n"                                                         \
    "  --costs TRACE        what they did in another recording of the same tenants\n"                        \
    "  --speed              and the machine as fast, moment by moment, as it was in the recording, with "    \
    "the\n"                                                                                                  \
    "                       blocks that stalled; the core count must be the recorded one\n"

/* Takes one of these flags; *took = false: it is none. */
int mo_replay_options_take(struct mo_bench_replay_options *options, struct mo_args *args, bool *took,
                           moire_error *err);
#endif
