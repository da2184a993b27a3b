/* SPDX-License-Identifier: Apache-2.0
 * canary.h - do tenants of one runtime see each other's bytes?
 *
 * One of them, the marked one, has the same odd number in all of its inputs, and so in all of its
 * activations: it fills what memory it gets with that number.  The others run beside and after it on two
 * cores, in bursts, cancelled, unloaded and loaded again, and every answer is searched for the number and
 * compared with the tenant's first answer, which it gave alone; so are the log, the recorded trace and all
 * messages searched. All is drawn from a seed, but for what threads do to the order. */
#ifndef CANARY_H
#define CANARY_H
#include <stdint.h>
#include "runtime/serve/runtime.h"

/* Faults for tests of the canary itself. */
enum canary_fault {
    CANARY_SOUND,
    CANARY_IDLE_KERNEL,  /* the first tenant's last kernel writes nothing */
    CANARY_DIRTY_ARENAS, /* and its arenas come as the marked tenant left them */
};

struct canary_config {
    uint64_t seed;
    int64_t answers;    /* to look at, of all tenants but the marked one */
    const char *policy; /* NULL: another one each time that the runtime starts anew */
    const char *folder; /* for models and traces; emptied at the end */
    enum canary_fault fault;
    /* Told now and then; NULL = not. */
    void (*progress)(int64_t answers, int64_t foreign, int64_t different);
};

struct canary_result {
    int64_t answers;   /* looked at */
    int64_t marked;    /* answers of the marked tenant */
    int64_t foreign;   /* bytes of its number in them, in the log, the trace, a message */
    int64_t different; /* answers unlike the tenant's first */
    int64_t cancelled, failed, reloads, texts, text_bytes;
};

/* 0 or an error: the canary could not run. */
int canary_run(const struct canary_config *config, struct canary_result *out, moire_error *err);
#endif
