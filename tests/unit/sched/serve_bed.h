/* SPDX-License-Identifier: Apache-2.0
 * serve_bed.h - a runtime with one small tenant whose only worker can be held up, for tests of the public
 * calls: what must wait waits, and no time is asserted. */
#ifndef MO_TEST_SERVE_BED_H
#define MO_TEST_SERVE_BED_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "moire.h"

enum { SERVE_SIDE = 32 };

/* Of a group of tests: makes the model, removes it. */
int serve_setup(void **state);
int serve_teardown(void **state);
const char *serve_folder(void);
struct ob;
/* Writes a model of onnx_build.h into that folder; the caller unlinks it. */
void serve_save(struct ob *built, const char *name, char *path, size_t n);
const char *serve_model(void);

struct serve_bed {
    moire_runtime *runtime;
    moire_tenant *tenant;
    moire_tensor input;
    float pixels[SERVE_SIDE * SERVE_SIDE];
    _Atomic int held, go; /* a callback holds the worker from its beginning until go */
};
/* One core, first come first served, built-in kernels. */
moire_config serve_config(void);
moire_runtime *serve_start(const moire_config *config);
moire_tenant *serve_load(moire_runtime *runtime, const char *name, int64_t qos_ns, int queue);
moire_tensor serve_input(float pixels[SERVE_SIDE * SERVE_SIDE]);
void serve_open(struct serve_bed *bed, int64_t qos_ns, int queue);
/* Keeps the worker in a callback until bed->go: the next query gets its core, and the worker does not come.
 */
void serve_hold(struct serve_bed *bed);
/* The same, and that next query is one that nobody looks at: what comes now waits. */
void serve_keep_busy(struct serve_bed *bed);

/* What came back of a query. */
struct serve_back {
    _Atomic int answers;
    int code, place; /* place in the order of answers */
    uint64_t tag;
    int64_t arrival, start, end, deadline, compute;
};
void serve_note(void *user, const moire_answer *answer); /* a callback, of a struct serve_back */
void serve_await(const struct serve_back *back);
moire_query_options serve_options(void);
int serve_ask(struct serve_bed *bed, const moire_query_options *options, struct serve_back *back);

moire_tenant_stats serve_stats(moire_tenant *tenant);
int64_t serve_outcomes(const moire_counts *counts);
bool serve_adds_up(const moire_counts *counts);
#endif
