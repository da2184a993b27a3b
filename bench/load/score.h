/* SPDX-License-Identifier: Apache-2.0
 * score.h - what became of the queries of one run, tenant by tenant.
 *
 * A query counts when its scheduled arrival lies in the measure window.  Latency runs from the scheduled
 * arrival.  Shed, failed and unfinished queries are misses and have no latency; an unfinished one enters the
 * percentiles with the time it had waited when the run was cut, a lower bound. */
#ifndef MO_BENCH_SCORE_H
#define MO_BENCH_SCORE_H
#include "bench/load/arrivals.h"

/* One query's fate, written by the runner of a system.  Times count from the start of the run. */
struct mo_bench_record {
    int64_t issue_ns; /* handed to the system; -1 = never */
    int64_t start_ns; /* first work on it; -1 = unknown */
    int64_t end_ns;   /* answered; -1 = not finished */
    int code;         /* MOIRE_OK or why there is no answer */
};

struct mo_bench_tenant_score {
    int n, met, shed, failed, unfinished;
    double within; /* met / n; -1 when n = 0: nothing is known of it */
    double mean_ms, p50_ms, p95_ms, p99_ms, max_ms;
    double *latency_ms; /* sorted; n - shed - failed of them */
    int n_latency;
    /* From the scheduled arrival until the first work, of the queries that are known to have begun. */
    double entry_p50_ms, entry_p99_ms, entry_max_ms;
    double *entry_ms; /* sorted, n_entry of them */
    int n_entry;
};

struct mo_bench_score {
    int n, met;
    double overall;       /* met / n over all tenants; -1 when n = 0 */
    double worst;         /* smallest within of a tenant that had queries; -1 when none had */
    int worst_tenant;     /* the first of that share; -1 when none had queries */
    double issue_late_ms; /* p99 of issue - scheduled: the generator's own delay */
    int64_t cut_ns;       /* queries due later than this were left out; INT64_MAX = none */
    struct mo_bench_tenant_score *tenants;
    int n_tenants;
};

/* n records of queries that nobody has asked yet. */
static inline void mo_bench_records_clear(struct mo_bench_record *records, int n) {
    for (int i = 0; i < n; i++)
        records[i] = (struct mo_bench_record){-1, -1, -1, MOIRE_OK};
}

/* The share that may lie behind met of n independent queries: Wilson's 95 % interval[0] to interval[1]; 0 to
 * 1 when n = 0.  Queries of one run wait for one another, so the true interval is rather wider. */
void mo_bench_wilson(int met, int n, double interval[2]);

/* Nearest-rank percentile (0 < p <= 100) of n sorted values; 0 when n = 0. */
double mo_bench_percentile(const double *sorted, int n, double p);

/* Scores a run.  cut_ns: the moment the run was stopped early (queries whose deadline lies later are left
 * out), or INT64_MAX.  Free with mo_bench_score_free(). */
int mo_bench_score(const struct mo_env *env, const struct mo_bench_schedule *schedule,
                   const struct mo_bench_record *records, const int64_t *qos_ns, int n_tenants,
                   int64_t cut_ns, struct mo_bench_score *out, moire_error *err);
void mo_bench_score_free(const struct mo_env *env, struct mo_bench_score *score);

/* Files of records: "index,issue_ns,start_ns,end_ns,code" lines. */
int mo_bench_records_write(const struct mo_bench_record *records, int n, int64_t cut_ns, const char *path,
                           moire_error *err);
int mo_bench_records_read(const char *path, struct mo_bench_record *records, int n, int64_t *cut_ns,
                          moire_error *err);
#endif
