/* SPDX-License-Identifier: Apache-2.0
 * scenario.h - a load scenario as data: which models share the machine, how often each is asked, how soon
 * each must answer.  The file format is described in bench/scenarios/README.md.
 *
 * An application, a query of which runs several models, is a tenant like any other to whoever draws arrivals
 * and scores answers; only who plays the schedule looks into it. */
#ifndef MO_BENCH_SCENARIO_H
#define MO_BENCH_SCENARIO_H
#include "bench/data/json_read.h"
#include "runtime/planner/dag.h"
#include "runtime/sched/objective.h"

enum { MO_BENCH_MAX_TENANTS = 64, MO_BENCH_MAX_INPUTS = 64 };

struct mo_bench_qos {
    double ms;         /* absolute target; 0 = use times_solo */
    double times_solo; /* multiple of the best peer's solo latency */
    int64_t cores;     /* of that solo run; 0 = all cores */
};

/* A rate that changes: from at_s[i] on it is rate[i], until the next; before the first it is rate[0]. */
struct mo_bench_curve {
    int n;
    double *at_s, *rate; /* queries/s */
};

struct mo_bench_tenant;

struct mo_bench_application {
    struct mo_dag dag;               /* finished */
    struct mo_bench_tenant *stage;   /* dag.n of them: name, model and shapes of each */
    int64_t split_ns[MO_DAG_STAGES]; /* the target by level; 0 until it is divided */
};

struct mo_bench_tenant {
    const char *name;  /* shown in reports */
    const char *model; /* zoo name or file; NULL for an application */
    struct mo_bench_application *app;
    double weight;               /* relative arrival frequency; 0 = 1 / QoS */
    double rate;                 /* queries/s at load 1, of a curve the largest; 0 = by weight */
    struct mo_bench_curve curve; /* n 0 = constant */
    int outstanding;             /* queries always on their way in place of arrivals; 0 = it has arrivals */
    double declared;             /* of a run: queries/s that the runtime is told to expect; 0 = none */
    struct mo_bench_qos qos;
    enum moire_class cls;
    int priority;
    int cores;    /* that its queries have at once at most; 0 = no bound */
    double share; /* its weight where not all can be served; 0 = 1 */
    bool shed_late;
    moire_shape shapes[MO_BENCH_MAX_INPUTS];
    int n_shapes;
};

struct mo_bench_scenario {
    const char *name, *about;
    struct mo_bench_tenant tenants[MO_BENCH_MAX_TENANTS];
    int n_tenants;
    enum mo_objective objective;
    bool rated;               /* all that have arrivals have a rate, and load is a multiple; else none has */
    struct mo_json_file file; /* owns every string above */
};

/* Reads a scenario file.  On success *out must be closed.  `path` must outlive it. */
int mo_bench_scenario_load(const struct mo_env *env, const char *path, struct mo_bench_scenario *out,
                           moire_error *err);
int mo_bench_scenario_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                            struct mo_bench_scenario *out, moire_error *err);
/* Takes an objective in place of the scenario's; NULL, or no objective: leaves it. */
void mo_bench_scenario_strive(struct mo_bench_scenario *scenario, const char *objective);
/* MOIRE_EINVAL for a scenario with applications: their target is divided by profiles of GPUs. */
int mo_bench_no_applications(const struct mo_bench_scenario *scenario, moire_error *err);
/* MOIRE_EINVAL for a scenario with closed loops; `where`: what has none of them. */
int mo_bench_no_closed_loops(const struct mo_bench_scenario *scenario, const char *where, moire_error *err);
/* Reads {"input": [dims], ...} into t->shapes. */
int mo_bench_read_shapes(const struct mo_json_file *file, const char *where, const json_t *object,
                         struct mo_bench_tenant *t, moire_error *err);
/* Parts of reading (scenario.c, scenario_rates.c, scenario_closed.c).  Load means one thing in a scenario, a
 * share of the machine or a multiple of the rates: that is checked. */
int mo_bench_read_rate(const struct mo_json_file *file, const char *where, const json_t *curve, double rate,
                       struct mo_bench_tenant *out, moire_error *err);
int mo_bench_read_outstanding(const struct mo_json_file *file, const char *where, const json_t *tenant,
                              int64_t outstanding, struct mo_bench_tenant *out, moire_error *err);
int mo_bench_check_rates(struct mo_bench_scenario *scenario, moire_error *err);
int mo_bench_read_stages(const struct mo_json_file *file, const char *where, const json_t *stages,
                         struct mo_bench_tenant *out, moire_error *err);
void mo_bench_scenario_close(struct mo_bench_scenario *scenario);
#endif
