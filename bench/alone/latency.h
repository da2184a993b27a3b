/* SPDX-License-Identifier: Apache-2.0
 * latency.h - `moire bench latency`: one model alone on the machine, every system in turn, in slices. */
#ifndef MO_BENCH_LATENCY_H
#define MO_BENCH_LATENCY_H
#include "bench/trust/others.h"
#include "bench/load/session.h"
#include "codegen/frontend.h"

enum { MO_BENCH_MAX_SYSTEMS = 24 };

/* Solo times of one model on one system with some threads. */
struct mo_bench_solo {
    const struct mo_bench_system *system; /* NULL = could not be measured; `why` says the reason */
    bool generic;
    int threads;
    double min_ms, median_ms;
    double specialised; /* moire: share of the work in compiled kernels; -1 = not moire */
    double *samples;    /* ms */
    int n;
    char why[200];
};

struct mo_bench_solo_spec {
    bool moire, generic;         /* the specialised and the generic kernels of moire */
    const char *const *families; /* peers */
    int n_families;
    double seconds; /* measured time of each system */
    int slices;     /* it is cut into so many slices, distributed in turn */
};

/* The system of a family that runs one model at a time; NULL = no such family. */
const struct mo_bench_system *mo_bench_solo_system(const char *family);
/* Measures one tenant's model.  out[] has room for MO_BENCH_MAX_SYSTEMS; *n is how many were filled.  A peer
 * that fails is noted in its `why`; only an interrupt or moire's own failure is an error.  Free with
 * mo_bench_solo_free(), also after an error. */
int mo_bench_solo_measure(struct mo_bench_session *session, const struct mo_bench_tenant *tenant, int threads,
                          const struct mo_bench_solo_spec *spec, struct mo_bench_solo *out, int *n,
                          moire_error *err);
void mo_bench_solo_free(struct mo_bench_solo *solo, int n);

/* The same step by step, for several numbers of threads: one runner for each system and number, all loaded.
 */
struct mo_bench_solo_set {
    struct mo_bench_session *session;
    struct mo_bench_solo solo[MO_BENCH_MAX_SYSTEMS];
    struct mo_bench_child child[MO_BENCH_MAX_SYSTEMS]; /* pid 0 = failed; `why` of its solo */
    int n;
    const struct mo_bench_solo_set *beside; /* the next in a ring of sets that take turns; NULL = alone */
};
/* What one slice left: its shortest time, and what others took of the processors meanwhile. */
struct mo_bench_solo_taken {
    double least_ms;
    struct mo_others others;
};
int mo_bench_solo_open(struct mo_bench_session *session, const struct mo_bench_tenant *tenant,
                       const int *threads, int n_threads, const struct mo_bench_solo_spec *spec,
                       struct mo_bench_solo_set *set, moire_error *err);
/* Runs number i for so many milliseconds, once all runners sleep, those of sets beside it too; a peer that
 * fails is noted in its `why`. */
int mo_bench_solo_slice(struct mo_bench_solo_set *set, int i, int ms, struct mo_bench_solo_taken *taken,
                        moire_error *err);
/* Ends the runners; samples stay until mo_bench_solo_free().  Also after an error. */
void mo_bench_solo_close(struct mo_bench_solo_set *set);
/* Adds the samples of one answer to `solo MS`; and makes minimum and median of all of them. */
int mo_bench_solo_append(struct mo_bench_solo *solo, const char *answer, moire_error *err);
void mo_bench_solo_summarize(struct mo_bench_solo *solo);

struct mo_bench_latency_options {
    const char *const *models;
    int n_models;
    const moire_shape *shapes;
    int n_shapes;
    int threads[8];
    int n_threads;
    struct mo_bench_solo_spec spec;
    double tolerance; /* of the precision auto (codegen/settle_precision.h); 0: none */
    const char *save; /* the document is written here after each model and thread count; may be NULL */
    bool resume;      /* go on with the document that is there */
    bool profile;     /* besides, moire's time by layer */
};
/* The tenant that stands for one model of the command line; its strings live in `region`. */
int mo_bench_latency_tenant(struct mo_bench_session *session, const struct mo_bench_latency_options *options,
                            const char *model, struct mo_region *region, struct mo_bench_tenant *out,
                            moire_error *err);
/* How moire loads that model; its shapes are the tenant's, which must live as long. */
struct mo_frontend_options mo_bench_front(const struct mo_bench_session *session,
                                          const struct mo_bench_tenant *tenant);
/* The whole command: fills *out with the JSON document, also when interrupted (what has been measured). */
int mo_bench_latency(struct mo_bench_session *session, const struct mo_bench_latency_options *options,
                     json_t **out, moire_error *err);
/* The table for the terminal. */
void mo_bench_latency_print(const json_t *document);
#endif
