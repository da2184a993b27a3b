/* SPDX-License-Identifier: Apache-2.0
 * verb_stress.c - `moire stress`: a calibrated neighbour on the cores that the caller leaves to it. */
#define _GNU_SOURCE
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "codegen/tune/stress.h"
#include "runtime/device/topology.h"
#include "tools/moire/verb.h"

static const char about[] =
    "Loads what cores share, caches and memory, while something else is measured.  Its threads walk through\n"
    "buffers of their own on all allowed cores but the first, which is left to the program that is "
    "measured,\n"
    "the victim: at level 5 as fast as they can, at level N with N/5 of that traffic, which is calibrated "
    "at\n"
    "the start.  The command prints how much the level slows a victim of its own, which streams a quarter "
    "of\n"
    "the shared cache on the first core.  Then it goes on until --seconds are over or a signal comes.\n";

static const char notes[] = "Examples:\n"
                            "  moire stress --level 3 --seconds 60 &\n"
                            "  moire stress --kind memory --level 5 --seconds 1 --json\n";

enum { MAX_THREADS = 256 };

/* The one thing a signal handler may touch. */
static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

static enum mo_stress_kind kind_of(const struct mo_options *o) {
    int kind = 0;
    while (kind < MO_STRESS_KINDS - 1 && strcmp(o->kind, mo_stress_kind_name((enum mo_stress_kind)kind)))
        kind++;
    return (enum mo_stress_kind)kind;
}

static void print_effect(const struct mo_options *o, bool same_core, const struct mo_stress *stress,
                         int walkers, const struct mo_stress_effect *e) {
    if (o->json) {
        json_t *j = json_pack("{ss si si sb si sf sf sf sf}", "kind", o->kind, "level", o->level, "threads",
                              walkers, "same_core", same_core, "unpinned", mo_stress_unpinned(stress), "gbs",
                              e->gbs, "victim_gbs", e->victim_gbs, "victim_solo_gbs", e->solo_gbs,
                              "victim_slowdown", e->victim_slowdown);
        json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        json_decref(j);
        putchar('\n');
    } else {
        printf(
            "level %d, %s%s, %d thread%s%s: %.2f GB/s moved; a victim that streams a quarter of the shared "
            "cache: %.2f GB/s alone, %.2f under it (slowdown %.2f)\n",
            o->level, o->kind, same_core ? " on the victim's core" : "", walkers, walkers == 1 ? "" : "s",
            mo_stress_unpinned(stress) ? " (not all pinned)" : "", e->gbs, e->solo_gbs, e->victim_gbs,
            e->victim_slowdown);
    }
    fflush(stdout);
}

static void wait_until(const struct mo_env *env, int64_t until) {
    while (!stop_requested && mo_now(env) < until) {
        int64_t next = mo_now(env) + 50000000;
        env->sys->sleep_until(env->sys->self, next < until ? next : until);
    }
}

static int run_stress(const struct mo_env *env, const struct mo_options *o, const struct mo_topology *t,
                      moire_error *err) {
    int cpu[MAX_THREADS];
    const bool same_core = o->same_core || t->n_cores == 1;
    int cores = same_core ? 1 : t->n_cores - 1, n = o->threads ? o->threads : cores;
    for (int i = 0; i < n; i++)
        cpu[i] = t->cpu[same_core ? 0 : 1 + i % cores];
    struct mo_stress_config config = {.env = env,
                                      .kind = kind_of(o),
                                      .cpu = cpu,
                                      .n = n < MAX_THREADS ? n : MAX_THREADS,
                                      .l2_bytes = t->l2_bytes,
                                      .l3_bytes = t->l3_bytes,
                                      .bursts = same_core};
    struct mo_stress *stress;
    struct mo_stress_effect effect;
    env->sys->pin(env->sys->self, t->cpu[0]);
    int rc = mo_stress_create(&config, &stress, err);
    if (rc) return rc;
    int64_t begin = mo_now(env);
    mo_stress_measure(stress, o->level, &effect);
    print_effect(o, same_core, stress, config.n, &effect);
    wait_until(env, o->seconds > 0 ? begin + (int64_t)(o->seconds * 1e9) : INT64_MAX);
    mo_stress_destroy(stress);
    return MOIRE_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct sigaction action = {.sa_handler = on_signal};
    struct mo_topology *topology;
    moire_error err = {0};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int rc = mo_topology_create(env, NULL, 0, "", &topology, &err);
    if (!rc) {
        rc = run_stress(env, o, topology, &err);
        mo_topology_destroy(topology);
    }
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_stress = {
    .name = "stress",
    .group = MO_GROUP_MEASURE,
    .summary = "load caches and memory at a calibrated level while something else is measured",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_STRESS}},
    .run = run,
};
