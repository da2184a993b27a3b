/* SPDX-License-Identifier: Apache-2.0
 * lets_bed.c - see lets_bed.h. */
#include "tests/unit/lets/lets_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/history/recorded.h"

void lets_bed_lay(struct lets_bed *b, int n_gpus, const int64_t *layer_ns, int n_layers) {
    plan_case_paper(&b->c, n_gpus);
    b->gpus = (struct mo_gpus){.n_kinds = 1, .n_gpus = n_gpus, .kinds = {b->c.kinds[0]}};
    b->profile = mo_profile_create(&b->c.env, n_layers, MO_PLAN_UNITS);
    mo_profile_record(b->profile, 1, layer_ns);
    mo_profile_finish(b->profile);
}

void lets_bed_start(struct lets_bed *b, struct mo_sim_config config, int n_events) {
    assert_int_equal(mo_gpus_finish(&b->gpus, NULL), MOIRE_OK);
    b->events = mo_events_create(&b->c.env, 1, n_events);
    config.env = &b->c.env;
    config.machine.n_cores = b->gpus.n_units;
    config.machine.gpus = &b->gpus;
    config.ring = &b->events->ring[0];
    assert_int_equal(mo_sim_create(&config, &b->sim, NULL), MOIRE_OK);
    mo_sim_advance(b->sim, 1);
}

void lets_bed_strike(struct lets_bed *b, int accepted) {
    if (accepted >= 0) history_of_events(b->events, b->gpus.n_units, accepted);
    mo_sim_destroy(b->sim);
    mo_events_destroy(b->events);
    mo_profile_destroy(b->profile);
    plan_case_close(&b->c);
}
