/* SPDX-License-Identifier: Apache-2.0
 * look.h - every model and the runtime at one moment: what metrics, the live page and `moire top` show. */
#ifndef MS_LOOK_H
#define MS_LOOK_H
#include "serve/repository/repository.h"
#include "serve/repository/stuck_models.h"

struct ms_model_look {
    char name[MS_NAME], version[MS_VERSION], reason[sizeof((struct ms_model *)0)->reason];
    enum ms_state state;
    int64_t qos_ns;
    enum moire_class cls;
    int priority;
    struct ms_tally tally;
    struct ms_share lately;   /* in the last minute */
    char stuck[MS_STUCK_WHY]; /* what of it does not come back; "": all does */
    bool below;               /* it has a target, and misses it too often */
    /* of its tenants together */
    uint64_t tenant[MS_BINDINGS]; /* their ids */
    int n_tenants;
    int waiting, running, cores;
    moire_memory memory;
    int64_t shared_weights;                        /* of memory.weights */
    int layers, compiled_layers, reference_layers; /* of one of them */
    int64_t version_runs[MOIRE_VERSIONS];
};
struct ms_look {
    struct ms_model_look *model;
    int n;
    moire_runtime_stats runtime;
    bool stuck; /* no core is left to serve */
    int64_t now_ns;
};

/* Returns: false: no memory.  Else it is to be closed. */
bool ms_look_open(struct ms_repository *repository, moire_runtime *runtime, struct ms_look *out);
void ms_look_close(struct ms_look *look);
/* "READY" and so on. */
const char *ms_state_name(enum ms_state state);
#endif
