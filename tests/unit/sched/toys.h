/* SPDX-License-Identifier: Apache-2.0
 * toys.h - for tests: an engine on toy devices (toy_device.h) with tenants and queries.  What the first
 * device answers MOIRE_EDEVICE is given to the second, where there is one. */
#ifndef TOYS_H
#define TOYS_H
#include <stdatomic.h>
#include "runtime/engine/engine.h"
#include "tests/unit/sched/toy_device.h"

enum { TOYS_QUERIES = 400, TOYS_TENANTS = 2, TOYS_DEVICES = 2, TOYS_LAYERS = 3, TOYS_SUBMITTERS = 4 };

struct toys_query {
    struct toys *toys;
    int tenant;
    _Atomic int answers, releases;
    int code;
    uint64_t handle, said; /* as submit and the answer say */
};

struct toys_tenant {
    struct toys *toys;
    int index[TOYS_DEVICES]; /* in the engine; -1 = not loaded there */
};

struct toys {
    struct mo_env env;
    struct toy toy[TOYS_DEVICES];
    struct mo_engine *engine;
    struct mo_profile *profile;
    int n_devices;
    _Atomic int n, moved;
    struct toys_tenant tenant[TOYS_TENANTS];
    struct toys_query query[TOYS_QUERIES];
};

/* The toys' failures may be set before they are started. */
struct toys *toys_make(int n_devices);
int toys_start(struct toys *b, moire_error *err);
int toys_open(struct toys *b, int tenant, int device, moire_error *err);
/* Made and started, with every tenant on every device. */
struct toys *toys_lay(int n_devices);
struct toys_query *toys_submit(struct toys *b);
/* All, from several threads. */
void toys_submit_all(struct toys *b);
/* Queries that have their answer; and those that have this one. */
int toys_answered(const struct toys *b);
int toys_with_code(const struct toys *b, int code);
/* Every query was answered once, under its handle, and released by every device that had it; nothing is left
 * behind.  Frees the toys. */
void toys_strike(struct toys *b);
#endif
