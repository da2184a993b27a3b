/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/base/claims_bed.h"

uint64_t claims_draw(uint64_t *rng, uint64_t n) {
    *rng = *rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*rng >> 33) % n;
}

void claims_lay(struct claims_bed *b, int spin, const struct mo_claims_calls *calls, void *ctx) {
    memset(b, 0, sizeof *b);
    b->env = mo_env_default();
    b->calls = calls;
    b->ctx = ctx;
    struct mo_team_config c = {.env = &b->env, .n = CLAIMS_WORKERS, .spin_ns = 1000};
    assert_int_equal(mo_team_create(&c, &b->team, NULL), MOIRE_OK);
    mo_claims_init(&b->claims, &b->env, b->ranges, CLAIMS_WORKERS, spin);
}

void claims_strike(struct claims_bed *b) {
    mo_team_destroy(b->team);
}

void claims_begin(struct claims_bed *b, int n_steps, int width) {
    atomic_store(&b->out, 0);
    atomic_store(&b->ended, 0);
    b->came = 0;
    mo_claims_begin(&b->claims, n_steps, width);
}

static void work(void *ctx, int core, int worker, int n_workers) {
    struct claims_bed *b = ctx;
    int code = 1;
    (void)worker, (void)n_workers;
    enum mo_claims_end end =
        mo_claims_work(&b->claims, &b->members[core], b->calls, b->ctx, b->scratch[core], &code);
    if (end != MO_CLAIMS_LEFT) atomic_store(&b->code, code);
    if (end == MO_CLAIMS_LAST) atomic_fetch_add(&b->ended, 1);
    atomic_store(&b->busy[core], false);
    atomic_fetch_add(&b->out, 1);
}

void claims_enter(struct claims_bed *b, int core, int seat) {
    mo_claims_seat(&b->members[core], seat);
    atomic_store(&b->busy[core], true);
    b->came++;
    mo_team_post(b->team, core, &(struct mo_job){work, b, seat, CLAIMS_WORKERS});
}

void claims_await(const struct claims_bed *b, _Atomic int *counter, int value) {
    while (atomic_load(counter) < value)
        b->env.sys->sleep_until(b->env.sys->self, mo_now(&b->env) + 20000);
}

void claims_run(struct claims_bed *b, int n_steps, int width) {
    claims_begin(b, n_steps, width);
    for (int w = 0; w < width; w++)
        claims_enter(b, w, w);
    claims_await(b, &b->out, width);
}

void claims_storm(struct claims_bed *b, int n_steps, uint64_t *rng) {
    claims_begin(b, n_steps, 1 + (int)claims_draw(rng, CLAIMS_WORKERS));
    claims_enter(b, 0, 0);
    while (!atomic_load(&b->ended)) {
        int core = 1 + (int)claims_draw(rng, CLAIMS_WORKERS - 1);
        mo_claims_resize(&b->claims, 1 + (int)claims_draw(rng, CLAIMS_WORKERS));
        if (!atomic_load(&b->busy[core])) {
            claims_enter(b, core, (int)claims_draw(rng, CLAIMS_WORKERS));
        } else {
            mo_claims_leave(&b->members[core]);
            b->left++;
        }
        if (!claims_draw(rng, 8)) b->env.sys->sleep_until(b->env.sys->self, mo_now(&b->env) + 20000);
    }
    claims_await(b, &b->out, b->came);
}
