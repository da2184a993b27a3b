/* SPDX-License-Identifier: Apache-2.0
 * search_impl.h - what the files of the search share: jobs and their candidates. */
#ifndef MO_SEARCH_INTERNAL_H
#define MO_SEARCH_INTERNAL_H
#include "codegen/search/cc.h"
#include "codegen/search/effort.h"
#include "codegen/search/search.h"
#include "codegen/search/writer.h"
#include "variants/store.h"

enum candidate_state { CANDIDATE_NEW, CANDIDATE_COMPILED, CANDIDATE_REJECTED, CANDIDATE_GOOD };

struct candidate {
    const struct mo_emit_family *family;
    struct mo_point point;
    enum candidate_state state;
    int number;   /* of the search: names its files in the work folder */
    char *source; /* from open_memstream */
    size_t source_bytes;
    char *object; /* of the environment */
    size_t object_bytes;
    void *code;
    struct mo_variant variant;
    double min_ns;   /* shortest over all measurements it took part in; 0: in none */
    double relative; /* the same in times of the generic kernel in the same measurement */
    double part_ns;  /* shortest time of the core with most to do, of options.cores; 0: not measured */
    char verdict[64];
    moire_error err;
    bool reported;
    char key[MO_SHA256_HEX]; /* of its entry in the store; "": not published */
};

/* One layer and its candidates in order of predicted cost. */
struct search_job {
    struct mo_layer layer;
    struct mo_layer_result result;
    int n, next; /* candidates; the first not yet compiled */
    struct candidate *candidate;
    struct candidate *best;      /* of this run; NULL: none yet */
    double relative;             /* its time, or the earlier run's best's, in those of the generic kernel */
    struct mo_store_index index; /* as published last, also by an earlier run */
    bool stored;                 /* an earlier run stored a best one: */
    struct mo_variant earlier;
    struct mo_store_index earlier_index;
    struct mo_store_front *front; /* of this run; NULL: the best is the only version */
    struct mo_store_index kept;   /* what the store had of the layer at the start, with */
    int kept_versions;            /* so many versions, when it is searched anew for others */
    double spent_s;               /* on the candidates before `next`, in this run */
    int64_t generic_units;        /* of the built-in kernel; 0: there is none */
};

struct mo_search {
    const struct mo_env *env;
    struct mo_search_options options;
    int n, cap;
    struct search_job **jobs;
    int on_unit;            /* layers left out, since they have a matrix unit */
    struct mo_store *store; /* as it was at the start; NULL: none */
    struct mo_writer *writer;
    struct mo_cc cc;
    int numbers;
    int compiled, refused; /* by the compiler, over the whole run */
    moire_error compiler_err;
    int64_t began, ends; /* of the budget; ends 0: there is none */
    double reserve_loading_s, reserve_runs, after_s;
    bool ended;
    int chunk_most; /* candidates of the next chunk; 0: as many as usual */
    struct mo_effort effort;
};

static inline bool mo_search_interrupted(const struct mo_search *s) {
    return s->options.interrupted && atomic_load(s->options.interrupted);
}

/* Whether the budget has ended. */
static inline bool mo_search_over(const struct mo_search *s) {
    return s->ends && mo_now(s->env) >= s->ends;
}

/* The limit, in ns, of a step that may usually take `usual`. */
static inline int64_t mo_search_limit(const struct mo_search *s, int64_t usual) {
    int64_t left = s->ends ? s->ends - mo_now(s->env) : usual;
    return left < 1 ? 1 : left < usual ? left : usual;
}

static inline bool mo_search_versions(const struct mo_search *s) {
    return s->options.versions > 1;
}

/* turns.c: what comes next. */
enum { MO_TURN_MOST = MO_FRONT_POINTS, MO_CHUNK_MOST = 32 + MO_TURN_MOST };

/* The turns of some layers, compiled together. */
struct mo_chunk {
    int jobs, n;
    struct search_job *job[MO_CHUNK_MOST], *of[MO_CHUNK_MOST]; /* by turn, by candidate */
    int turn[MO_CHUNK_MOST];                                   /* candidates of the job's turn */
    struct candidate *candidate[MO_CHUNK_MOST];
};
bool mo_job_wants_more(const struct mo_search *s, const struct search_job *job);
int mo_jobs_by_share(const void *a, const void *b); /* for qsort: largest predicted time of all uses first */
int mo_first_turn(const struct mo_search *s, int pending); /* candidates of each pending layer's first turn */
int mo_turns_left(const struct mo_search *s, int first);
/* Candidates of all turns that are left, and the work of timing them. */
int mo_candidates_left(const struct mo_search *s, double *work);
/* Advances the jobs it takes; false when nothing is left.  s->jobs is in order of share. */
bool mo_next_chunk(const struct mo_search *s, int first, struct mo_chunk *chunk);

/* candidates.c: the legal points of a job; emits and compiles a batch; releases what a candidate holds. */
int mo_job_points(const struct mo_search *s, struct search_job *job, moire_error *err);
int mo_compile_batch(struct mo_search *s, struct candidate *const *batch, struct search_job *const *of, int n,
                     moire_error *err);
void mo_candidate_release(const struct mo_search *s, struct candidate *c, bool unload);
void mo_candidate_knobs(const struct candidate *c, char out[MO_STORE_KNOBS]);

/* probation.c: tries the compiled candidates of a job in a copy of this process; loads the good ones, rejects
 * the others. */
int mo_job_examine(struct mo_search *s, struct search_job *job, struct mo_harness *h, moire_error *err);

/* tune.c: has the compiled candidates of a job tried, measures the good ones, publishes the best. */
int mo_candidate_publish(struct mo_search *s, const struct search_job *job, struct candidate *c,
                         moire_error *err);
struct mo_runnable mo_variant_runnable(const struct mo_variant *variant);
void mo_candidate_reject(const struct mo_search *s, struct candidate *c, const char *verdict);
int mo_job_tune(struct mo_search *s, struct search_job *job, moire_error *err);

/* layer_versions.c: measures the good candidates of a job under pressure and chooses its versions
 * (job->front); writes them. */
int mo_job_measure_levels(struct mo_search *s, struct search_job *job, struct mo_harness *h,
                          moire_error *err);
/* What the store has of the layer stays as it is. */
void mo_job_keep_stored(struct search_job *job);
/* The same without pressure: the best, and the one that serves options.cores when the best does so badly;
 * job->front stays NULL when it does well. */
int mo_job_widen(struct mo_search *s, struct search_job *job, moire_error *err);
int mo_job_publish_front(struct mo_search *s, struct search_job *job, moire_error *err);
/* Whether the store has all versions of the job's layer, covered ones too when those are wanted; takes their
 * number. */
bool mo_job_has_front(const struct mo_search *s, struct search_job *job);
#endif
