/* SPDX-License-Identifier: Apache-2.0
 * canary.c - the load, the search and the counting of the canary; see canary.h. */
#define _GNU_SOURCE
#include "tests/unit/sched/canary.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/unit/sched/canary_models.h"

enum {
    THREADS = 2,
    FAULTY = 1,          /* the tenant whose kernels a fault makes idle */
    MOST_TRIES = 100,    /* of the first answer */
    OPEN = 24,           /* queries under way at most */
    EVENTS = 4096,       /* that the trace remembers of a core */
    LIFE = 50000,        /* answers that a runtime lives for */
    RELOAD_EVERY = 2000, /* queries between two reloads, on average */
    CANCEL_EVERY = 16,
    TELL_EVERY = 50000
};

/* A tenant's model, its inputs, and its first answer. */
struct guest {
    struct canary *canary;
    char path[300];
    moire_tenant *tenant;
    moire_tensor in[CANARY_INPUTS];
    int index, n_in;
    uint64_t sum; /* of the first answer, with its shapes */
    bool known;
};

struct canary {
    const struct canary_config *config;
    moire_runtime *rt;
    struct guest guest[CANARY_MODELS];
    uint64_t dice;
    _Atomic int open;
    _Atomic int64_t answers, marked, foreign, different, cancelled, failed, texts, text_bytes;
    int64_t reloads, told;
};

static uint64_t dice(struct canary *c, uint64_t n) {
    uint64_t z = c->dice += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

/* --- the search ---------------------------------------------------------------------------------------- */

/* Bytes of the mark, wherever it begins. */
static int64_t marks_in(const void *at, size_t n) {
    int64_t bytes = 0;
    const char *p = at;
    for (const char *end = p + n; (p = memmem(p, (size_t)(end - p), &CANARY_MARK, sizeof CANARY_MARK));
         p += sizeof CANARY_MARK)
        bytes += sizeof CANARY_MARK;
    return bytes;
}

/* Bytes of the word, where no letter or digit is on either side: parts of long numbers, such as times in ns,
 * spell the mark by chance. */
static int64_t words_in(const char *text, size_t n, const char *word) {
    const size_t length = strlen(word);
    int64_t bytes = 0;
    const char *p = text, *end = text + n;
    for (; (p = memmem(p, (size_t)(end - p), word, length)); p += length) {
        bool begins = p == text || !isalnum((unsigned char)p[-1]);
        bool ends = p + length == end || !isalnum((unsigned char)p[length]);
        if (begins && ends) bytes += (int64_t)length;
    }
    return bytes;
}

/* A text holds the mark as bytes, as a number, or in hexadecimal. */
static void search_text(struct canary *c, const char *text, size_t n) {
    float mark;
    char spelled[3][40];
    memcpy(&mark, &CANARY_MARK, sizeof mark);
    snprintf(spelled[0], sizeof spelled[0], "%g", (double)mark);
    snprintf(spelled[1], sizeof spelled[1], "%.0f", (double)mark);
    snprintf(spelled[2], sizeof spelled[2], "%x", (unsigned)CANARY_MARK);
    int64_t found = marks_in(text, n);
    for (int i = 0; i < 3; i++)
        found += words_in(text, n, spelled[i]);
    atomic_fetch_add(&c->foreign, found);
    atomic_fetch_add(&c->texts, 1);
    atomic_fetch_add(&c->text_bytes, (int64_t)n);
}

static void on_log(void *user, int level, const char *line) {
    (void)level;
    search_text(user, line, strlen(line));
}

static uint64_t sum_of(const moire_answer *a) {
    uint64_t sum = 14695981039346656037u;
    for (int i = 0; i < a->n_outputs; i++) {
        const moire_tensor *t = &a->outputs[i];
        const unsigned char *p = t->data;
        for (size_t k = 0; k < t->bytes; k++)
            sum = (sum ^ p[k]) * 1099511628211u;
        for (int k = 0; k < t->rank; k++)
            sum = (sum ^ (uint64_t)t->shape[k]) * 1099511628211u;
    }
    return sum;
}

static void look_at(struct guest *g, const moire_answer *a) {
    struct canary *c = g->canary;
    if (a->code == MOIRE_ECANCELLED) atomic_fetch_add(&c->cancelled, 1);
    if (a->code != MOIRE_OK && a->code != MOIRE_ECANCELLED) atomic_fetch_add(&c->failed, 1);
    search_text(c, a->message, strlen(a->message));
    if (!g->index) {
        atomic_fetch_add(&c->marked, 1);
        return;
    }
    for (int i = 0; i < a->n_outputs; i++)
        atomic_fetch_add(&c->foreign, marks_in(a->outputs[i].data, a->outputs[i].bytes));
    if (a->code == MOIRE_OK) {
        const uint64_t sum = sum_of(a);
        if (!g->known) {
            g->sum = sum; /* it runs alone */
            g->known = true;
        }
        if (sum != g->sum) atomic_fetch_add(&c->different, 1);
    }
    atomic_fetch_add(&c->answers, 1);
}

static void on_answer(void *user, const moire_answer *answer) {
    struct guest *g = user;
    look_at(g, answer);
    atomic_fetch_sub(&g->canary->open, 1);
}

/* --- the load ------------------------------------------------------------------------------------------ */

static void idle_kernel(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    (void)args;
    (void)begin;
    (void)end;
    (void)scratch;
}

static int load(struct canary *c, int i, moire_error *err) {
    moire_tenant_config config;
    moire_tenant_config_init(&config);
    config.qos_ns = i % 3 == 1 ? 2000000 : 0;
    config.cls = i % 2 ? MOIRE_LATENCY_CRITICAL : MOIRE_BEST_EFFORT;
    int rc = moire_load(c->rt, c->guest[i].path, &config, &c->guest[i].tenant, err);
    if (rc || i != FAULTY || c->config->fault == CANARY_SOUND || !c->guest[i].known) return rc;
    const struct mo_plan *plan = c->guest[i].tenant->plan;
    for (int k = 0; k < plan->n_steps; k++)
        if (plan->steps[k].run) plan->steps[k].run = idle_kernel;
    return rc;
}

/* Undoes the scrubbing: the tenant finds what the marked one would have left.  All arenas must be back, so
 * that its query, which then runs alone, takes this one. */
static void make_dirty(struct canary *c, const struct guest *g) {
    if (c->config->fault != CANARY_DIRTY_ARENAS || !g->index) return;
    while (atomic_load(&c->open) || mo_arenas_state(c->rt->pools.arenas).taken)
        usleep(20);
    struct mo_arena *arena =
        mo_arenas_take(c->rt->pools.arenas, mo_instance_arena_bytes(g->tenant->plan), g->tenant->number);
    for (size_t k = 0; arena && k + sizeof CANARY_MARK <= arena->bytes; k += sizeof CANARY_MARK)
        memcpy(arena->at + k, &CANARY_MARK, sizeof CANARY_MARK);
    if (arena) mo_arenas_give(c->rt->pools.arenas, arena);
}

static void submit(struct canary *c) {
    struct guest *g = &c->guest[dice(c, 3) ? dice(c, CANARY_MODELS) : 0];
    moire_tensor in[CANARY_INPUTS];
    moire_query query;
    moire_error err = {0};
    memcpy(in, g->in, sizeof in);
    if (!dice(c, 64)) in[0].rank--; /* refused */
    while (atomic_load(&c->open) >= OPEN)
        usleep(20);
    make_dirty(c, g);
    atomic_fetch_add(&c->open, 1);
    if (moire_submit(g->tenant, in, g->n_in, 0, on_answer, g, &query, &err)) {
        atomic_fetch_sub(&c->open, 1);
        search_text(c, err.message, strlen(err.message));
        return;
    }
    if (!dice(c, CANCEL_EVERY)) moire_cancel(c->rt, query);
}

/* The first answer of each, alone.  The faulty tenant's is asked for again if a busy machine made it so late
 * that it was shed: without it there is nothing to compare with. */
static int first_answers(struct canary *c, moire_error *err) {
    for (int i = 0; i < CANARY_MODELS; i++) {
        struct guest *g = &c->guest[i];
        int rc = load(c, i, err), tries = 0;
        do {
            if (rc) return rc;
            atomic_fetch_add(&c->open, 1);
            rc = moire_submit(g->tenant, g->in, g->n_in, 0, on_answer, g, NULL, err);
            moire_drain(c->rt);
        } while (rc || (i == FAULTY && !g->known && ++tries < MOST_TRIES));
    }
    return c->guest[FAULTY].known ? MOIRE_OK : mo_fail(err, MOIRE_EFAILED, "the faulty tenant never answers");
}

static int reload(struct canary *c, int i, moire_error *err) {
    int rc = moire_unload(c->guest[i].tenant, err);
    if (!rc) rc = load(c, i, err);
    c->reloads++;
    return rc;
}

static int search_trace(struct canary *c, moire_error *err) {
    char path[320], *text = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/trace", c->config->folder);
    int rc = moire_record(c->rt, path, err);
    if (rc) return rc;
    FILE *f = fopen(path, "r");
    for (ssize_t n; f && (n = getline(&text, &room, f)) > 0;)
        search_text(c, text, (size_t)n);
    free(text);
    if (f) fclose(f);
    return f && !unlink(path) ? MOIRE_OK : mo_fail(err, MOIRE_EIO, "cannot read '%s'", path);
}

static void tell(struct canary *c) {
    int64_t answers = atomic_load(&c->answers);
    if (!c->config->progress || answers - c->told < TELL_EVERY) return;
    c->told = answers;
    c->config->progress(answers, atomic_load(&c->foreign), atomic_load(&c->different));
}

/* One life of a runtime: until so many answers, or LIFE of them. */
static int live(struct canary *c, const char *policy, moire_error *err) {
    moire_config config;
    moire_config_init(&config);
    config.threads = THREADS;
    config.generic_only = 1;
    config.block_ns = 20000;
    config.policy = policy;
    config.record = EVENTS;
    config.log = on_log;
    config.log_user = c;
    int rc = moire_runtime_create(&config, &c->rt, err);
    if (rc) return rc;
    const int64_t until = atomic_load(&c->answers) + LIFE;
    rc = first_answers(c, err);
    if (!rc && c->config->fault != CANARY_SOUND) rc = reload(c, FAULTY, err);
    while (!rc && atomic_load(&c->answers) < c->config->answers && atomic_load(&c->answers) < until) {
        submit(c);
        if (!dice(c, RELOAD_EVERY)) rc = reload(c, (int)dice(c, CANARY_MODELS), err);
        tell(c);
    }
    moire_drain(c->rt);
    if (!rc) rc = search_trace(c, err);
    moire_runtime_destroy(c->rt, 1);
    return rc;
}

static int open_guests(struct canary *c, moire_error *err) {
    for (int i = 0; i < CANARY_MODELS; i++) {
        struct guest *g = &c->guest[i];
        g->canary = c;
        g->index = i;
        g->n_in = canary_model_inputs(i, c->config->seed + (uint64_t)i, g->in);
        snprintf(g->path, sizeof g->path, "%s/tenant%d.onnx", c->config->folder, i);
        if (!canary_model_write(i, g->path)) return mo_fail(err, MOIRE_EIO, "cannot write '%s'", g->path);
    }
    return MOIRE_OK;
}

static void close_guests(struct canary *c) {
    for (int i = 0; i < CANARY_MODELS; i++) {
        for (int k = 0; k < c->guest[i].n_in; k++)
            free(c->guest[i].in[k].data);
        unlink(c->guest[i].path);
    }
}

int canary_run(const struct canary_config *config, struct canary_result *out, moire_error *err) {
    static const char *const policies[] = {"moire", "fcfs", "prema", "veltair-as"};
    struct canary *c = calloc(1, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    c->config = config;
    c->dice = config->seed;
    int rc = open_guests(c, err);
    for (size_t life = 0; !rc && atomic_load(&c->answers) < config->answers; life++)
        rc = live(c, config->policy ? config->policy : policies[life % 4], err);
    *out = (struct canary_result){.answers = c->answers,
                                  .marked = c->marked,
                                  .foreign = c->foreign,
                                  .different = c->different,
                                  .cancelled = c->cancelled,
                                  .failed = c->failed,
                                  .reloads = c->reloads,
                                  .texts = c->texts,
                                  .text_bytes = c->text_bytes};
    close_guests(c);
    free(c);
    return rc;
}
