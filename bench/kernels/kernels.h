/* SPDX-License-Identifier: Apache-2.0
 * kernels.h - `moire bench kernels`: every distinct layer of some models alone, judged against the machine's
 * ceilings of the same run and, where there is one, beside the same layer on oneDNN. */
#ifndef MO_BENCH_KERNELS_H
#define MO_BENCH_KERNELS_H
#include "bench/kernels/ceiling.h"
#include "bench/data/journal.h"
#include "codegen/model_plan.h"
#include "variants/store.h"

struct mo_bench_kernels_options {
    const char *const *models;
    int n_models;
    const moire_shape *shapes;
    int n_shapes;
    int threads[8];
    int n_threads;
    bool onednn;    /* measure the peer too */
    bool exact;     /* no layer may use a less exact algorithm */
    double seconds; /* of each layer and system */
    int slices;     /* it is cut into so many, distributed in turn */
    const char *save;
    bool resume;
};

/* The whole command: fills *out with the JSON document, also when interrupted (what has been measured). */
int mo_bench_kernels(struct mo_bench_session *session, const struct mo_bench_kernels_options *options,
                     json_t **out, moire_error *err);
/* The table for the terminal. */
void mo_bench_kernels_print(const json_t *document);

/* kernels_layers.c: the layers of one model, made ready to run one by one. */
struct mo_bench_layer {
    int step;       /* of the plan */
    char key[320];  /* equal for layers that are the same work */
    char spec[400]; /* for the peer; "" when it has no such layer */
    char text[80], input[96], output[96];
    int uses; /* layers of the model that share it */
};
struct mo_bench_layers {
    const struct mo_env *env;
    struct mo_store *store;
    struct mo_model_plan model;
    const struct mo_plan *plan; /* the model's */
    struct mo_instance *instance;
    struct mo_bench_layer *layer;
    int n;
};
/* Loads the model, chooses kernels as the runtime would, and runs it once, so that layers find real data.
 * store: NULL = built-in kernels only.  *out stays where it is until it is closed. */
int mo_bench_layers_open(const struct mo_env *env, const char *path, const struct mo_frontend_options *front,
                         const char *store, struct mo_bench_layers *out, moire_error *err);
void mo_bench_layers_close(struct mo_bench_layers *layers);
#endif
