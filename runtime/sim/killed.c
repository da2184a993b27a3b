/* SPDX-License-Identifier: Apache-2.0
 * killed.c - a running block is killed: its cores neither run nor idle until the machine's reset_ns has
 * passed. What they had run until then stays in the statistics: they were busy. */
#include "runtime/sim/sim_impl.h"

void mo_sim_reset(void *self, int lead) {
    struct mo_sim *s = self;
    struct mo_sim_work *w = &s->work[lead];
    s->broken += !s->n_running || !mo_cores_has(&s->busy, lead) || w->run.lead != lead;
    if (w->seen > s->now) w->ran = false; /* it had not begun */
    mo_sim_count(s, w);
    mo_sim_take_out(s, lead);
    mo_cores_join(&s->resetting, &w->run.cores);
    s->restored_at[lead] = s->now + s->machine.reset_ns;
    if (s->restored_at[lead] < s->restored) s->restored = s->restored_at[lead];
}

void mo_sim_restore(struct mo_sim *s) {
    int lead = -1;
    const int64_t when = s->restored;
    s->restored = MO_NEVER;
    for (int i = 0; i < s->machine.n_cores; i++) {
        if (lead < 0 && s->restored_at[i] == when) {
            lead = i;
            s->restored_at[i] = 0;
        } else if (s->restored_at[i] && s->restored_at[i] < s->restored) {
            s->restored = s->restored_at[i];
        }
    }
    const struct mo_sim_work *w = &s->work[lead];
    const struct mo_cores cores = w->run.cores;
    mo_cores_subtract(&s->resetting, &cores);
    for (int c = mo_cores_next(&cores, -1); c >= 0 && s->config.ring; c = mo_cores_next(&cores, c))
        mo_event_put(s->config.ring, s->now, MO_LOG_RESTORED, 0, w->run.tenant, c, 0, 0);
    mo_sched_cores_back(s->sched, -1, &cores, s->now);
}
