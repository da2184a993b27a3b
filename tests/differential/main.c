/* SPDX-License-Identifier: Apache-2.0
 * main.c - the differential tester: failures of the past, deliberate faults, then random graphs until the
 * time is over; a summary with what was exercised and what was not.
 *
 *   differential [--seed N] [--seconds S | --graphs N] [--compile-every N] [--kernels N]
 *                [--serve-every N] [--found DIR]
 *                [--canaries N [--emitted 1]] [--model FILE] [--state FILE] [--folder DIR] [--python FILE]
 *
 * Exit status 1: an answer was wrong or a deliberate fault was not found. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/differential/canary.h"
#include "tests/differential/replay.h"

struct options {
    uint64_t seed;
    int64_t graphs;
    double seconds;
    int compile_every, serve_every, kernels, canaries, emitted;
    const char *folder, *python, *worker, *found, *model, *state;
};

static volatile sig_atomic_t stopped;
static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

static bool parse(int argc, char **argv, struct options *o) {
    const struct {
        const char *name;
        const char **text;
        int *number;
    } rows[] = {{"--compile-every", NULL, &o->compile_every},
                {"--serve-every", NULL, &o->serve_every},
                {"--canaries", NULL, &o->canaries},
                {"--emitted", NULL, &o->emitted},
                {"--kernels", NULL, &o->kernels},
                {"--folder", &o->folder, NULL},
                {"--python", &o->python, NULL},
                {"--worker", &o->worker, NULL},
                {"--found", &o->found, NULL},
                {"--model", &o->model, NULL},
                {"--state", &o->state, NULL}};
    for (int i = 1; i < argc; i += 2) {
        bool known = i + 1 < argc;
        if (known && !strcmp(argv[i], "--seed"))
            o->seed = strtoull(argv[i + 1], NULL, 10);
        else if (known && !strcmp(argv[i], "--graphs"))
            o->graphs = strtoll(argv[i + 1], NULL, 10);
        else if (known && !strcmp(argv[i], "--seconds"))
            o->seconds = strtod(argv[i + 1], NULL);
        else {
            size_t k = 0, n = sizeof rows / sizeof *rows;
            while (k < n && strcmp(argv[i], rows[k].name))
                k++;
            if (!known || k == n) return false;
            if (rows[k].text)
                *rows[k].text = argv[i + 1];
            else
                *rows[k].number = (int)strtol(argv[i + 1], NULL, 10);
        }
    }
    return true;
}

/* A run that was stopped goes on behind the last graph it had. */
static void resume(struct options *o) {
    FILE *f = o->state ? fopen(o->state, "r") : NULL;
    char line[64];
    if (f && fgets(line, sizeof line, f)) {
        o->seed = strtoull(line, NULL, 10);
        printf("going on at seed %llu (%s)\n", (unsigned long long)o->seed, o->state);
    }
    if (f) fclose(f);
}

static void remember(const struct options *o, uint64_t next) {
    FILE *f = o->state ? fopen(o->state, "w") : NULL;
    if (!f) return;
    fprintf(f, "%llu\n", (unsigned long long)next);
    fclose(f);
}

static unsigned ways_of(const struct options *o, int64_t i) {
    unsigned ways = DT_BUILT_IN | DT_PEER_TOO;
    if (o->compile_every && i % o->compile_every == 0) ways |= DT_COMPILED_TOO;
    if (o->serve_every && i % o->serve_every == 0) ways |= DT_SERVED_TOO;
    return ways;
}

static void run_campaign(struct dt_net *net, const struct options *o, struct dt_counts *counts) {
    const int64_t second = 1000000000;
    int64_t begin = mo_now(net->env), said = begin;
    for (int64_t i = 0; !stopped; i++) {
        int64_t now = mo_now(net->env);
        if (o->graphs ? i >= o->graphs : (double)(now - begin) >= o->seconds * 1e9) break;
        dt_try_seed(net, o->seed + (uint64_t)i, ways_of(o, i), counts);
        if (now - said < 60 * second) continue;
        said = now;
        remember(o, o->seed + (uint64_t)i + 1);
        printf("%lld s: %lld graphs, %d failed, next seed %llu\n", (long long)((now - begin) / second),
               (long long)net->graphs, counts->failed, (unsigned long long)o->seed + (uint64_t)i + 1);
        fflush(stdout);
    }
}

static void summary(const struct dt_net *net, const struct dt_counts *t, int missed) {
    dt_cover_print(&net->cover);
    dt_cover_print_group(&net->cover, "refused by ONNX Runtime");
    dt_cover_print_group(&net->cover, "refused by moire");
    printf("%lld graphs;", (long long)net->graphs);
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        printf(" compiled for %s %lld,", mo_isa_name((enum mo_isa)isa), (long long)net->compiled[isa]);
    printf(" %lld kernels compiled (%lld more reused); with ONNX Runtime %lld, refused there %lld; served "
           "%lld\n",
           (long long)net->kernels, (long long)net->reused, (long long)net->peers,
           (long long)dt_cover_sum(&net->cover, "refused by ONNX Runtime"), (long long)net->served);
    struct dt_served_counts served = dt_served_counts(net->server);
    printf("served: %lld queries in %lld blocks, %lld cancelled\n", served.queries, served.blocks,
           served.cancelled);
    if (missed) printf("%d deliberate faults were not found\n", missed);
    printf("differential: %d passed, %d failed, %d skipped\n", t->passed, t->failed + missed, t->skipped);
}

static int run(struct dt_net *net, struct options *o) {
    struct dt_counts counts = {0};
    int missed = 0;
    if (o->model) dt_try_file(net, o->model, &counts);
    if (o->found) dt_try_folder(net, o->found, &counts);
    if (o->canaries) missed = dt_canaries(net, o->seed, o->canaries, o->emitted);
    resume(o);
    printf("seeds from %llu\n", (unsigned long long)o->seed);
    net->kernels_each = o->kernels;
    run_campaign(net, o, &counts);
    remember(o, o->seed + (uint64_t)net->graphs);
    summary(net, &counts, missed);
    return counts.failed || missed;
}

int main(int argc, char **argv) {
    struct options o = {.seed = 1,
                        .seconds = 0,
                        .compile_every = 10,
                        .serve_every = 10,
                        .kernels = 2,
                        .folder = "build/differential",
                        .python = ".venv/bin/python",
                        .worker = "tests/differential/peer_worker.py"};
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    static struct dt_net net; /* large */
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "differential: see the head of tests/differential/main.c for its options\n");
        return 2;
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    setvbuf(stdout, NULL, _IOLBF, 0);
    net = (struct dt_net){.env = &env, .folder = o.folder, .peer = dt_peer_start(o.python, o.worker)};
    net.server = dt_served_start(&env, o.folder, &err);
    if (!net.server) {
        fprintf(stderr, "differential: %s\n", err.message);
        return 2;
    }
    if (!net.peer) printf("no ONNX Runtime in '%s': compared without it\n", o.python);
    int rc = run(&net, &o);
    dt_peer_stop(net.peer);
    dt_served_stop(net.server);
    return rc;
}
