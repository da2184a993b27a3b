/* SPDX-License-Identifier: Apache-2.0
 * worth.c - see worth.h. */
#include "bench/load/worth.h"

#include <math.h>

int mo_bench_answers(const struct mo_bench_schedule *s, const struct mo_bench_record *records, int tenant,
                     int64_t cut_ns) {
    int n = 0;
    for (int i = 0; i < mo_bench_slots(s); i++) {
        const struct mo_bench_record *r = &records[i];
        if (r->end_ns < 0 || r->code != MOIRE_OK || mo_bench_tenant_of(s, i) != tenant) continue;
        n += r->end_ns <= cut_ns && mo_bench_counts(s, r->end_ns);
    }
    return n;
}

double mo_bench_window_s(const struct mo_bench_schedule *s, int64_t cut_ns) {
    const int64_t end = s->warmup_ns + s->window_ns, until = cut_ns < end ? cut_ns : end;
    return until > s->warmup_ns ? (double)(until - s->warmup_ns) * 1e-9 : 0;
}

static json_t *critical_json(const struct mo_bench_mix *mix, const struct mo_bench_score *score) {
    int n = 0, met = 0;
    double span[2];
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        if (mix->scenario.tenants[i].cls == MOIRE_BEST_EFFORT) continue;
        n += score->tenants[i].n;
        met += score->tenants[i].met;
    }
    mo_bench_wilson(met, n, span);
    return json_pack("{s:i, s:i, s:o, s:o}", "n", n, "met", met, "within_qos",
                     mo_json_known(n > 0, n > 0 ? (double)met / n : 0), "within_interval",
                     n > 0 ? json_pack("[f,f]", span[0], span[1]) : json_null());
}

/* What a tenant's answers are of what it gets alone; negative = not known. */
static double of_alone(double qps, double alone_ms) {
    return alone_ms > 0 ? qps * alone_ms * 1e-3 : -INFINITY;
}

static json_t *known(double value) {
    return mo_json_known(value >= 0, value);
}

static json_t *best_effort_json(const struct mo_bench_mix *mix, const char *family,
                                const struct mo_bench_schedule *schedule,
                                const struct mo_bench_record *records, int64_t cut_ns) {
    const double seconds = mo_bench_window_s(schedule, cut_ns);
    json_t *tenants = json_array();
    int all = 0;
    double sum = 0, own = 0;
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        if (mix->scenario.tenants[i].cls != MOIRE_BEST_EFFORT) continue;
        const int n = mo_bench_answers(schedule, records, i, cut_ns);
        const double qps = seconds > 0 ? n / seconds : -INFINITY;
        const double alone = mo_bench_alone_ms(mix, i, NULL), its = mo_bench_alone_ms(mix, i, family);
        all += n;
        sum += of_alone(qps, alone);
        own += of_alone(qps, its);
        json_array_append_new(
            tenants,
            json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "name", mix->scenario.tenants[i].name, "answers", n,
                      "qps", known(qps), "alone_qps", mo_json_known(alone > 0, alone > 0 ? 1e3 / alone : 0),
                      "of_alone", known(of_alone(qps, alone)), "of_own_alone", known(of_alone(qps, its))));
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:o}", "answers", all, "qps",
                     known(seconds > 0 ? all / seconds : -1), "of_alone", known(sum), "of_own_alone",
                     known(own), "tenants", tenants);
}

json_t *mo_bench_classes_json(const struct mo_bench_mix *mix, const char *family,
                              const struct mo_bench_schedule *schedule, const struct mo_bench_record *records,
                              const struct mo_bench_score *score, int64_t cut_ns) {
    int best_effort = 0;
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        best_effort += mix->scenario.tenants[i].cls == MOIRE_BEST_EFFORT;
    if (!best_effort || best_effort == mix->scenario.n_tenants) return NULL;
    return json_pack("{s:o, s:o}", "critical", critical_json(mix, score), "best_effort",
                     best_effort_json(mix, family, schedule, records, cut_ns));
}
