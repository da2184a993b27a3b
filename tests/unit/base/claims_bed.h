/* SPDX-License-Identifier: Apache-2.0
 * claims_bed.h - for tests: a team of a few workers that share blocks, and members that come and go. */
#ifndef CLAIMS_BED_H
#define CLAIMS_BED_H
#include <stdatomic.h>
#include "runtime/device/work_claims.h"
#include "runtime/device/team.h"

enum { CLAIMS_WORKERS = 4 };

struct claims_bed {
    struct mo_env env;
    struct mo_claims claims;
    struct mo_claims_range ranges[CLAIMS_WORKERS];
    struct mo_claims_member members[CLAIMS_WORKERS];
    struct mo_team *team;
    const struct mo_claims_calls *calls;
    void *ctx;
    void *scratch[CLAIMS_WORKERS];
    _Atomic int out, ended, code; /* members that are out, blocks that were ended, what these said */
    _Atomic bool busy[CLAIMS_WORKERS];
    int came, left; /* so far */
};

uint64_t claims_draw(uint64_t *rng, uint64_t n);
void claims_lay(struct claims_bed *b, int spin, const struct mo_claims_calls *calls, void *ctx);
void claims_strike(struct claims_bed *b);
void claims_begin(struct claims_bed *b, int n_steps, int width);
/* A core that is not in the team enters it. */
void claims_enter(struct claims_bed *b, int core, int seat);
/* Until so many members are out. */
void claims_await(const struct claims_bed *b, _Atomic int *counter, int value);
/* A whole block with `width` members, who stay. */
void claims_run(struct claims_bed *b, int n_steps, int width);
/* A whole block whose members, all but core 0, come and go; seats have gaps and are taken twice. */
void claims_storm(struct claims_bed *b, int n_steps, uint64_t *rng);
#endif
