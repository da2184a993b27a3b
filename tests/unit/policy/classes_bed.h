/* SPDX-License-Identifier: Apache-2.0
 * classes_bed.h - devices in virtual time, tenants of tasks of one length each, and who ended when. */
#ifndef MO_TEST_CLASSES_BED_H
#define MO_TEST_CLASSES_BED_H
#include "runtime/sim/sim.h"

enum { CLASSES_TENANTS = 8, CLASSES_ENDS = 256 };

struct classes_bed {
    struct mo_sim *sim;
    struct mo_events *events;
    struct mo_profile *profile[CLASSES_TENANTS];
    int n, n_ends;
    struct {
        int tenant;
        int64_t arrival, start, end; /* ms since the bed was opened */
    } ends[CLASSES_ENDS];
};

/* n devices; a reset takes so many ms, 0 = there are none. */
void classes_bed_open(struct classes_bed *bed, const struct mo_policy *policy, int n, int reset_ms);
/* A tenant of tasks of `ms` in so many equal layers; sla_ms 0: best effort. */
void classes_bed_tenant(struct classes_bed *bed, int ms, int layers, int sla_ms);
/* n tasks of a tenant come at `at`. */
void classes_bed_submit(struct classes_bed *bed, int tenant, int n, int at_ms);
/* All is answered: no decision was refused, nothing was lost, and the history keeps its promises. */
void classes_bed_close(struct classes_bed *bed);
#endif
