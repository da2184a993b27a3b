/* SPDX-License-Identifier: Apache-2.0
 * serve_bed.c - see serve_bed.h. */
#define _GNU_SOURCE
#include "tests/unit/sched/serve_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/zoo.h"
#include "tests/unit/codegen/onnx_build.h"

static char folder[] = "/tmp/moire-serve-XXXXXX";
static char model[512];
static _Atomic int places;

int serve_setup(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    if (!mkdtemp(folder)) return -1;
    return mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL);
}

int serve_teardown(void **state) {
    (void)state;
    unlink(model);
    return rmdir(folder);
}

const char *serve_folder(void) {
    return folder;
}
const char *serve_model(void) {
    return model;
}

moire_runtime *serve_start(const moire_config *config) {
    moire_runtime *runtime = NULL;
    moire_error err = {0};
    int code = moire_runtime_create(config, &runtime, &err);
    if (code) print_message("%s\n", err.message);
    assert_int_equal(code, MOIRE_OK);
    return runtime;
}

moire_config serve_config(void) {
    moire_config c;
    moire_config_init(&c);
    c.generic_only = 1;
    c.threads = 1;
    c.policy = "fcfs";
    return c;
}

moire_tenant *serve_load(moire_runtime *runtime, const char *name, int64_t qos_ns, int queue) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.name = name;
    c.qos_ns = qos_ns;
    c.queue = queue;
    moire_tenant *tenant = NULL;
    assert_int_equal(moire_load(runtime, model, &c, &tenant, NULL), MOIRE_OK);
    return tenant;
}

void serve_save(struct ob *built, const char *name, char *path, size_t n) {
    snprintf(path, n, "%s/%s", serve_folder(), name);
    assert_true(ob_save(built, path));
}

moire_tensor serve_input(float pixels[SERVE_SIDE * SERVE_SIDE]) {
    return (moire_tensor){.dtype = MOIRE_F32,
                          .rank = 4,
                          .shape = {1, 1, SERVE_SIDE, SERVE_SIDE},
                          .data = pixels,
                          .bytes = SERVE_SIDE * SERVE_SIDE * sizeof *pixels};
}

void serve_open(struct serve_bed *b, int64_t qos_ns, int queue) {
    moire_config c = serve_config();
    *b = (struct serve_bed){.runtime = serve_start(&c)};
    b->input = serve_input(b->pixels);
    b->tenant = serve_load(b->runtime, "lenet", qos_ns, queue);
}

static void hold(void *user, const moire_answer *answer) {
    struct serve_bed *b = user;
    (void)answer;
    atomic_store(&b->held, 1);
    while (!atomic_load(&b->go))
        usleep(100);
}

void serve_hold(struct serve_bed *b) {
    atomic_store(&b->held, 0);
    atomic_store(&b->go, 0);
    assert_int_equal(moire_submit(b->tenant, &b->input, 1, 0, hold, b, NULL, NULL), MOIRE_OK);
    while (!atomic_load(&b->held))
        usleep(100);
}

void serve_keep_busy(struct serve_bed *b) {
    serve_hold(b);
    assert_int_equal(moire_submit(b->tenant, &b->input, 1, 0, NULL, NULL, NULL, NULL), MOIRE_OK);
}

/* --- what came back ------------------------------------------------------------------------------------- */
void serve_note(void *user, const moire_answer *a) {
    struct serve_back *b = user;
    b->code = a->code;
    b->tag = a->tag;
    b->arrival = a->arrival_ns;
    b->start = a->start_ns;
    b->end = a->end_ns;
    b->deadline = a->deadline_ns;
    b->compute = a->compute_ns;
    b->place = atomic_fetch_add(&places, 1);
    atomic_fetch_add(&b->answers, 1);
}

void serve_await(const struct serve_back *b) {
    while (!atomic_load(&b->answers))
        usleep(100);
}

moire_query_options serve_options(void) {
    moire_query_options o;
    moire_query_options_init(&o);
    return o;
}

int serve_ask(struct serve_bed *bed, const moire_query_options *o, struct serve_back *b) {
    return moire_submit_with(bed->tenant, &bed->input, 1, o, serve_note, b, NULL, NULL);
}

moire_tenant_stats serve_stats(moire_tenant *t) {
    moire_tenant_stats s = {.size = sizeof s};
    assert_int_equal(moire_tenant_get_stats(t, &s, NULL), MOIRE_OK);
    return s;
}

int64_t serve_outcomes(const moire_counts *c) {
    return c->ok + c->expired + c->shed + c->cancelled + c->failed + c->unloaded + c->shutdown;
}

bool serve_adds_up(const moire_counts *c) {
    return c->submitted == c->rejected + c->open + serve_outcomes(c) && c->in_time <= c->ok && c->open >= 0;
}
