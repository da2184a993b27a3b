/* SPDX-License-Identifier: Apache-2.0
 * verb_stress.c - `moire stress`: a calibrated neighbour on the cores that the caller leaves to it. */
#define _GNU_SOURCE
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/tune/stress.h"
#include "runtime/device/topology.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire stress [--level 0..5] [--kind l2|l3|memory] [--threads N] [--same-core] [--seconds S]\n"
    "                    [--json]\n\n"
    "Presses on what cores share while something else is measured.  Its threads walk buffers of their own "
    "on\n"
    "all allowed cores but the first, which is left to the victim; level 5 as fast as they can, level n at\n"
    "n/5 of that traffic, as calibrated at the start.  Prints what the level does to a victim that streams "
    "a\n"
    "quarter of the shared cache on the first core, then goes on until --seconds are over or a signal "
    "comes.\n\n"
    "  --level N      0 (asleep) to 5; 5 by default\n"
    "  --kind KIND    what the buffers fill: l2 (private caches), l3 (the shared one; default) or memory\n"
    "  --threads N    walkers; one a core by default\n"
    "  --same-core    on the victim's own core: every millisecond a part of its private cache is "
    "overwritten,\n"
    "                 twice the cache at level 5.  The default where only one core is allowed\n"
    "  --seconds S    stop after S seconds; without it on SIGINT or SIGTERM\n"
    "  --json         the effect as JSON\n\n"
    "Exit codes: 0 done, 2 usage, 4 system.\n\n"
    "Examples:\n"
    "  moire stress --level 3 --seconds 60 &\n"
    "  moire stress --kind memory --level 5 --seconds 1 --json\n";

enum { MAX_THREADS = 256 };

struct options {
    int level, threads;
    enum mo_stress_kind kind;
    bool same_core, json;
    double seconds; /* 0 = until a signal */
};

/* The one thing a signal handler may touch. */
static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

static bool kind_of(const char *text, enum mo_stress_kind *out) {
    for (int i = 0; text && i < MO_STRESS_KINDS; i++) {
        if (strcmp(text, mo_stress_kind_name((enum mo_stress_kind)i))) continue;
        *out = (enum mo_stress_kind)i;
        return true;
    }
    return false;
}

/* An exit code, or -1 to go on. */
static int parse(struct mo_args *a, struct options *o) {
    int64_t v;
    while (a->at < a->argc) {
        if (mo_args_flag(a, "--level", true)) {
            if (!mo_args_whole(a->value, 0, MO_STRESS_LEVELS - 1, &v))
                return mo_verb_usage("stress", "--level wants 0 to 5", NULL);
            o->level = (int)v;
        } else if (mo_args_flag(a, "--threads", true)) {
            if (!mo_args_whole(a->value, 1, MAX_THREADS, &v))
                return mo_verb_usage("stress", "--threads wants 1 to 256", NULL);
            o->threads = (int)v;
        } else if (mo_args_flag(a, "--kind", true)) {
            if (!kind_of(a->value, &o->kind))
                return mo_verb_usage("stress", "--kind is l2, l3 or memory", NULL);
        } else if (mo_args_flag(a, "--seconds", true)) {
            if (!mo_args_number(a->value, 0.001, 1e7, &o->seconds))
                return mo_verb_usage("stress", "--seconds wants a time", NULL);
        } else if (mo_args_flag(a, "--same-core", false)) {
            o->same_core = true;
        } else if (mo_args_flag(a, "--json", false)) {
            o->json = true;
        } else {
            return mo_verb_usage("stress", "no such flag:", a->argv[a->at]);
        }
    }
    return -1;
}

static void print_effect(const struct options *o, const struct mo_stress *stress, int walkers,
                         const struct mo_stress_effect *e) {
    if (o->json) {
        json_t *j = json_pack("{ss si si sb si sf sf sf sf}", "kind", mo_stress_kind_name(o->kind), "level",
                              o->level, "threads", walkers, "same_core", o->same_core, "unpinned",
                              mo_stress_unpinned(stress), "gbs", e->gbs, "victim_gbs", e->victim_gbs,
                              "victim_solo_gbs", e->solo_gbs, "victim_slowdown", e->victim_slowdown);
        json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        json_decref(j);
        putchar('\n');
    } else {
        printf(
            "level %d, %s%s, %d thread%s%s: %.2f GB/s moved; a victim that streams a quarter of the shared "
            "cache: %.2f GB/s alone, %.2f under it (slowdown %.2f)\n",
            o->level, mo_stress_kind_name(o->kind), o->same_core ? " on the victim's core" : "", walkers,
            walkers == 1 ? "" : "s", mo_stress_unpinned(stress) ? " (not all pinned)" : "", e->gbs,
            e->solo_gbs, e->victim_gbs, e->victim_slowdown);
    }
    fflush(stdout);
}

static void wait_until(const struct mo_env *env, int64_t until) {
    while (!stop_requested && mo_now(env) < until) {
        int64_t next = mo_now(env) + 50000000;
        env->sys->sleep_until(env->sys->self, next < until ? next : until);
    }
}

static int press(const struct mo_env *env, struct options *o, const struct mo_topology *t, moire_error *err) {
    int cpu[MAX_THREADS];
    o->same_core |= t->n_cores == 1;
    int cores = o->same_core ? 1 : t->n_cores - 1, n = o->threads ? o->threads : cores;
    for (int i = 0; i < n; i++)
        cpu[i] = t->cpu[o->same_core ? 0 : 1 + i % cores];
    struct mo_stress_config config = {.env = env,
                                      .kind = o->kind,
                                      .cpu = cpu,
                                      .n = n < MAX_THREADS ? n : MAX_THREADS,
                                      .l2_bytes = t->l2_bytes,
                                      .l3_bytes = t->l3_bytes,
                                      .bursts = o->same_core};
    struct mo_stress *stress;
    struct mo_stress_effect effect;
    env->sys->pin(env->sys->self, t->cpu[0]);
    int rc = mo_stress_create(&config, &stress, err);
    if (rc) return rc;
    int64_t begin = mo_now(env);
    mo_stress_measure(stress, o->level, &effect);
    print_effect(o, stress, config.n, &effect);
    wait_until(env, o->seconds > 0 ? begin + (int64_t)(o->seconds * 1e9) : INT64_MAX);
    mo_stress_destroy(stress);
    return MOIRE_OK;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct options o = {.level = MO_STRESS_LEVELS - 1, .kind = MO_STRESS_L3};
    struct mo_args args = {.argc = argc, .at = 1, .argv = argv};
    struct sigaction action = {.sa_handler = on_signal};
    struct mo_topology *topology;
    moire_error err = {0};
    int code = parse(&args, &o);
    if (code >= 0) return code;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int rc = mo_topology_create(env, NULL, 0, "", &topology, &err);
    if (!rc) {
        rc = press(env, &o, topology, &err);
        mo_topology_destroy(topology);
    }
    return rc ? mo_verb_fail("stress", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_stress = {
    .name = "stress",
    .summary = "press on caches and memory at a calibrated level while something else is measured",
    .usage = usage,
    .run = run,
};
