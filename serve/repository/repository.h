/* SPDX-License-Identifier: Apache-2.0
 * repository.h - the models that a server serves: loads, unloads and reloads them, and runs queries on them.
 *
 * One thread, the loader, does all that takes long, so that neither protocols nor queries wait for it.  A
 * model is a tenant of the runtime for each set of input shapes that it is asked for (bindings.c).  The first
 * query of a new set waits until that tenant is made: by another thread, the binder, where that takes
 * milliseconds, because the model has a tenant already; else by the loader.
 *
 * Invariants.  Whoever uses a model holds it (ms_repository_take) and gives it back; a model that was
 * replaced or unloaded goes when nobody holds it.  Every query that is started ends in exactly one call of
 * its `done`. */
#ifndef MS_REPOSITORY_H
#define MS_REPOSITORY_H
#include <pthread.h>
#include <stdatomic.h>
#include "serve/pipeline/ensemble.h"
#include "serve/pipeline/functions.h"
#include "serve/protocol/kserve.h"
#include "serve/query/admission.h"
#include "serve/query/class_labels.h"
#include "serve/query/tally.h"

enum { MS_BINDINGS = 240 }; /* tenants of all models; a runtime has 256 at most */
enum ms_state { MS_LOADING, MS_READY, MS_UNLOADING, MS_UNAVAILABLE };

/* A tenant for one set of input shapes. */
struct ms_binding {
    struct ms_binding *next;
    moire_tenant *tenant;
    int users;                 /* queries */
    uint64_t used;             /* counts uses; the least makes room */
    int64_t bytes;             /* that go with it */
    int output_axis[MS_PORTS]; /* where padded outputs are cut: padding.h */
    moire_shape shape[];       /* of every input; names are the model's */
};

struct ms_model {
    struct ms_repository *repository;
    struct ms_found found;
    struct ms_settings settings;
    moire_model *file;            /* NULL: an ensemble, a function, or it could not be loaded */
    struct ms_ensemble *ensemble; /* NULL: none */
    const struct ms_function *fn; /* likewise */
    void *fn_state;
    moire_port input[MS_PORTS], output[MS_PORTS];
    int n_inputs, n_outputs;
    struct ms_labels labels[MS_PORTS]; /* of outputs */
    enum ms_state state;
    char reason[500];
    int users;
    struct ms_held held;
    struct ms_batcher *batcher; /* NULL: queries are not joined */
    struct ms_binding *bindings;
    int n_bindings;
    struct ms_tally *tally;   /* one for all that had this name and version */
    struct ms_model *retired; /* the next one of that list */
};

struct ms_repository_options {
    struct ms_source source;
    moire_runtime *runtime;
    bool is_explicit;     /* clients load and unload; nothing is loaded until one does */
    int64_t shape_memory; /* bytes that tenants of single shapes may have, all together */
    void (*log)(void *user, int level, const char *line);
    void *log_user;
    struct ms_log *logger; /* settings that clients change; NULL: none */
    struct ms_trace *trace;
    struct ms_regions *regions;
    bool has_shared_memory; /* clients may register some there */
};

struct ms_job;
struct ms_jobs {
    struct ms_job *first, *last;
};
struct ms_gate;
struct ms_repository {
    struct ms_repository_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job came, a user left */
    pthread_t loader, binder, background;
    struct ms_model *model[MS_MODELS];
    int n;
    struct ms_model *retired;    /* not in the table any more, but held */
    int64_t failed_loads;        /* of models that are not ready now, at the last look */
    struct ms_jobs loads, binds; /* for the loader, and for the binder */
    int n_bindings;              /* of all models */
    int64_t shape_bytes;         /* likewise */
    int busy;                    /* jobs that are not done */
    bool stops;                  /* no further loads */
    atomic_bool leaves;          /* the server is to end: it serves, and says that it is not ready */
    bool ends;                   /* nor anything else */
    bool binder_ended, loader_ended;
    struct ms_job *handed; /* by the loader to the background */
    uint64_t uses;
    int cores;                                    /* of the runtime, 1 or more */
    struct ms_gate *gate;                         /* of ensembles; NULL: there was none yet */
    struct ms_function_threads *function_threads; /* of functions; likewise */
};

/* Cores that queries of a model can have. */
static inline int ms_model_cores(const struct ms_model *m) {
    const int bound = m->settings.cores, all = m->repository->cores;
    return bound && bound < all ? bound : all;
}

/* Starts the loader, which begins to load everything unless is_explicit.
 * Returns: MOIRE_OK, and the repository is to be stopped; MOIRE_ENOMEM; MOIRE_EIO: no thread. */
int ms_repository_start(const struct ms_repository_options *options, struct ms_repository **out,
                        moire_error *err);
/* Ends the loader and unloads all.  Nobody may hold a model any more. */
void ms_repository_stop(struct ms_repository *repository);

/* From now on neither the server nor a model is ready, so that who spreads queries turns to others; all goes
 * on.
 */
void ms_repository_leave(struct ms_repository *repository);
static inline bool ms_repository_leaves(struct ms_repository *repository) {
    return atomic_load(&repository->leaves);
}
/* No further load begins; queries go on. */
void ms_repository_quiesce(struct ms_repository *repository);
/* Looks at the folder again: what is new or changed is loaded, what is gone unloaded.  Returns at once. */
void ms_repository_refresh(struct ms_repository *repository);
/* Loads or unloads by name; done (not NULL) is called by the loader when that has ended.
 * Returns: MOIRE_OK: it will be called; MOIRE_EINVAL: the repository is not is_explicit; MOIRE_ESTALE: no
 * model has such a name; MOIRE_ENOMEM. */
typedef void (*ms_job_done)(void *user, int code, const char *message);
typedef int (*ms_job_start)(struct ms_repository *repository, const char *name, ms_job_done done, void *user,
                            moire_error *err);
int ms_repository_load(struct ms_repository *repository, const char *name, ms_job_done done, void *user,
                       moire_error *err);
int ms_repository_unload(struct ms_repository *repository, const char *name, ms_job_done done, void *user,
                         moire_error *err);
/* An ensemble, and the models that it uses. */
int ms_repository_unload_all(struct ms_repository *repository, const char *name, ms_job_done done, void *user,
                             moire_error *err);
/* Nothing is being loaded and nothing has failed to. */
bool ms_repository_is_ready(struct ms_repository *repository);
/* Loads or unloads are under way. */
bool ms_repository_is_busy(struct ms_repository *repository);

/* Takes a model, ready or not, to be given back; version NULL: the newest.
 * Returns: MOIRE_OK; MOIRE_ESTALE: there is none of that name and version; MOIRE_EINVAL: that is no version.
 */
int ms_repository_take(struct ms_repository *repository, const char *name, const char *version,
                       struct ms_model **out, moire_error *err);
void ms_repository_give(struct ms_model *model);
/* Takes once more what the caller has taken. */
void ms_repository_hold(struct ms_model *model);
enum ms_state ms_model_state(struct ms_model *model);
/* Takes all; *n of them. */
void ms_repository_take_all(struct ms_repository *repository, struct ms_model *out[MS_MODELS], int *n);

/* --- for infer_query.c --- */
struct ms_query;
/* Queues a query for which a binding is to be made.  MOIRE_ENOMEM. */
int ms_repository_bind(struct ms_repository *repository, struct ms_query *query);
/* Has the loader call that, behind what it has to do.  MOIRE_ENOMEM: it will not. */
int ms_repository_call(struct ms_repository *repository, void (*call)(void *user), void *user);
/* The binding for those shapes, used once more; NULL: none yet.  Under the lock. */
struct ms_binding *ms_binding_find(struct ms_model *model, const moire_shape *shapes);
/* It is used no more; not under the lock. */
void ms_binding_give(struct ms_model *model, struct ms_binding *binding);
/* Makes one, or finds it made meanwhile.  quick: MOIRE_ESTORE where that takes a load. */
int ms_binding_make(struct ms_model *model, const moire_shape *shapes, bool quick, struct ms_binding **out,
                    moire_error *err);
#endif
