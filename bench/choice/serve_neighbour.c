/* SPDX-License-Identifier: Apache-2.0
 * serve_neighbour.c - a calibrated neighbour in this process; see serve_neighbour.h.
 *
 * The thread that changes levels lives while they change.  The victim of a measurement has a thread of its
 * own, too: runners inherit where the thread that starts them may run, so that one is never pinned. */
#include "bench/choice/serve_neighbour.h"

#include <string.h>
#include "runtime/device/topology.h"

enum { MAX_WALKERS = 256 };

struct mo_bench_neighbour {
    const struct mo_env *env;
    struct mo_stress *stress;
    int threads, victim_cpu;
    bool same_core;
    int level[MO_STRESS_LEVELS], n; /* that it goes through */
    struct mo_thread changer;
    bool changes;
    _Atomic uint32_t stop; /* futex word of the changer */
};

int mo_bench_neighbour_open(const struct mo_env *env, int cores, struct mo_bench_neighbour **out,
                            moire_error *err) {
    struct mo_topology *t;
    int cpu[MAX_WALKERS], n = 0;
    *out = NULL;
    int code = mo_topology_create(env, NULL, 0, "", &t, err);
    if (code) return code;
    const bool same_core = cores >= t->n_cores;
    for (int i = same_core ? 0 : cores; i < t->n_cores && n < MAX_WALKERS; i++)
        cpu[n++] = t->cpu[i];
    const struct mo_stress_config config = {.env = env,
                                            .kind = MO_STRESS_L3,
                                            .cpu = cpu,
                                            .n = n,
                                            .l2_bytes = t->l2_bytes,
                                            .l3_bytes = t->l3_bytes,
                                            .bursts = same_core};
    struct mo_bench_neighbour *b = mo_alloc(env, sizeof *b);
    if (b) *b = (struct mo_bench_neighbour){.env = env, .threads = n, .same_core = same_core};
    if (b) b->victim_cpu = t->cpu[0];
    mo_topology_destroy(t);
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a neighbour");
    code = mo_stress_create(&config, &b->stress, err);
    if (code)
        mo_free(env, b);
    else
        *out = b;
    return code;
}

void mo_bench_neighbour_close(struct mo_bench_neighbour *b) {
    if (!b) return;
    mo_bench_neighbour_keep(b, 0);
    mo_stress_destroy(b->stress);
    mo_free(b->env, b);
}

/* --- levels ------------------------------------------------------------------------------------------- */
static void *change(void *arg) {
    struct mo_bench_neighbour *b = arg;
    const struct mo_sys *sys = b->env->sys;
    const int64_t stay = INT64_C(1000000) * MO_NEIGHBOUR_STAY_MS;
    for (int i = 0; !atomic_load(&b->stop); i = (i + 1) % b->n) {
        mo_stress_set(b->stress, b->level[i]);
        for (int64_t until = mo_now(b->env) + stay; !atomic_load(&b->stop) && mo_now(b->env) < until;)
            sys->futex_wait(sys->self, &b->stop, 0, until);
    }
    return NULL;
}

void mo_bench_neighbour_keep(struct mo_bench_neighbour *b, int level) {
    const struct mo_sys *sys = b->env->sys;
    if (b->changes) {
        atomic_store(&b->stop, 1);
        sys->futex_wake(sys->self, &b->stop, 1);
        sys->thread_join(sys->self, b->changer);
        b->changes = false;
    }
    mo_stress_set(b->stress, level);
}

int mo_bench_neighbour_change(struct mo_bench_neighbour *b, const int *level, int n, moire_error *err) {
    mo_bench_neighbour_keep(b, 0);
    b->n = n < MO_STRESS_LEVELS ? n : MO_STRESS_LEVELS;
    memcpy(b->level, level, (size_t)b->n * sizeof *level);
    atomic_store(&b->stop, 0);
    int rc = b->env->sys->thread_start(b->env->sys->self, &b->changer, change, b);
    b->changes = rc == 0;
    return rc ? mo_fail(err, MOIRE_EIO, "cannot start a thread: %s", strerror(-rc)) : MOIRE_OK;
}

/* --- what it does to a victim ------------------------------------------------------------------------- */
struct measuring {
    struct mo_bench_neighbour *neighbour;
    int level;
    struct mo_stress_effect effect;
};

static void *measure(void *arg) {
    struct measuring *m = arg;
    const struct mo_sys *sys = m->neighbour->env->sys;
    sys->pin(sys->self, m->neighbour->victim_cpu);
    mo_stress_measure(m->neighbour->stress, m->level, &m->effect);
    return NULL;
}

json_t *mo_bench_neighbour_about(struct mo_bench_neighbour *b, const int *level, int n) {
    const struct mo_sys *sys = b->env->sys;
    json_t *levels = json_array();
    for (int i = 0; i < n; i++) {
        struct measuring m = {.neighbour = b, .level = level[i]};
        struct mo_thread thread;
        if (sys->thread_start(sys->self, &thread, measure, &m)) {
            json_decref(levels);
            return NULL;
        }
        sys->thread_join(sys->self, thread);
        json_array_append_new(levels, json_pack("{s:i, s:f, s:f}", "level", level[i], "gbs", m.effect.gbs,
                                                "victim_slowdown", m.effect.victim_slowdown));
    }
    mo_bench_neighbour_keep(b, 0);
    return json_pack("{s:s, s:i, s:b, s:i, s:o}", "kind", mo_stress_kind_name(MO_STRESS_L3), "threads",
                     b->threads, "same_core", (int)b->same_core, "change_ms", MO_NEIGHBOUR_STAY_MS, "levels",
                     levels);
}
