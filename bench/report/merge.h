/* SPDX-License-Identifier: Apache-2.0
 * merge.h - the same load measured with several seeds, as one row a tenant.
 *
 * Counts are added up, so that a share is that of all queries of all seeds; percentiles are means over the
 * seeds that have them.  The least and the greatest share of a single seed say how far the seeds lie apart.
 */
#ifndef MO_BENCH_MERGE_H
#define MO_BENCH_MERGE_H
#include <jansson.h>
#include <stdbool.h>

enum { MO_MERGED_TENANTS = 64 };

struct mo_merged {
    const char *name; /* the document's */
    double n, met, shed, failed, unanswered;
    double answered_s;         /* answers a second, of a seed; -1 = the time is not known */
    double least, most;        /* share of the seed with the smallest, and the largest; 0 without queries */
    double p50, p95, p99;      /* ms from the scheduled arrival; -1 = no answer */
    double wait_p50, wait_p99; /* ms from there until the first work; -1 = not known */
    int answering, begun;      /* seeds that have them */
};

struct mo_merged_load {
    double load;
    int seeds;
    bool stopped;         /* some seed was stopped early: it could not reach the goal any more */
    int behind;           /* seeds in which it fell behind (bench/load/backlog.h) */
    double overdue;       /* queries of theirs that were due and have no answer */
    struct mo_merged all; /* every tenant's queries; its percentiles and waits are -1 */
    struct mo_merged tenants[MO_MERGED_TENANTS];
    int n_tenants;
    double worst_least, worst_most; /* share of the worst tenant, by seed */
};

/* Merges what one system did at one load; returns how many seeds there were, 0 = not measured. */
int mo_merge_load(const json_t *document, const char *system, double load, struct mo_merged_load *out);
/* met / n; -1 without queries. */
double mo_merged_share(const struct mo_merged *m);
/* The tenant with the smallest share; NULL = none had queries. */
const struct mo_merged *mo_merged_worst(const struct mo_merged_load *m);
/* Share of a tenant's queries that were answered within ms, over all seeds; -1 without queries. */
double mo_merged_within(const json_t *document, const char *system, double load, const char *tenant,
                        double ms);
#endif
