/* SPDX-License-Identifier: Apache-2.0
 * toy_device.h - for tests: a device of a few calls (runtime/engine/device.h) that runs nothing.  One thread
 * takes what `start` was called for and says that it has ended, when the test lets it. */
#ifndef TOY_DEVICE_H
#define TOY_DEVICE_H
#include <pthread.h>
#include "runtime/engine/device.h"

enum { TOY_UNITS = 3 };
extern const struct mo_device_calls toy_device;

/* A toy, and the options of its open(); the test zeroes it and reads it afterwards. */
struct toy {
    /* what fails, with `code` */
    int fail_open, fail_begin, fail_admit; /* the n-th call; 0 = none */
    int refuse;                            /* the n-th start, which then never runs */
    int fail_from;                         /* every block from the n-th on that ends */
    int code;
    /* counted */
    int opened, closed, begun, admitted, forgotten;
    int started, ended; /* under `lock` */
    /* the device's own */
    struct mo_device *device;
    pthread_mutex_t lock;
    pthread_cond_t doorbell;
    pthread_t thread;
    bool running, stop, held;
    struct toy_block {
        struct mo_run run;
        uint64_t query;
        bool due, refused;
    } block[TOY_UNITS]; /* by lead */
};

/* While it is held no block ends. */
void toy_hold(struct toy *toy, bool held);
#endif
