/* SPDX-License-Identifier: Apache-2.0
 * scaling.c - see scaling.h.
 *
 * Times on one thread and on two, measured seconds apart, say little where the host changes its pace: moire
 * is loaded once for each number of threads, and in each round every one of them has a short slice.  A round
 * is over in a fraction of a second, so its ratio is of one pace; the median over rounds forgets those in
 * which it changed. */
#include "bench/alone/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/load/score.h"
#include "runtime/base/numbers.h"

enum { ROUNDS = 20 };

/* The number with the fewest threads. */
static int fewest(const struct mo_bench_solo_set *set) {
    int least = 0;
    for (int i = 1; i < set->n; i++)
        if (set->solo[i].threads < set->solo[least].threads) least = i;
    return least;
}

/* least_ms[i]: ROUNDS shortest times of number i. */
static int take_turns(struct mo_bench_solo_set *set, double seconds, double (*least_ms)[ROUNDS],
                      moire_error *err) {
    struct mo_bench_solo_taken taken;
    int code = MOIRE_OK;
    for (int round = 0; !code && round < ROUNDS; round++)
        for (int i = 0; !code && i < set->n; i++) {
            code = mo_bench_solo_slice(set, i, (int)(seconds * 1e3 / ROUNDS), &taken, err);
            least_ms[i][round] = taken.least_ms;
        }
    return code;
}

static void add_rows(json_t *list, const char *model, const struct mo_bench_solo_set *set,
                     double (*least_ms)[ROUNDS]) {
    const int base = fewest(set);
    for (int i = 0; i < set->n; i++) {
        double ratio[ROUNDS];
        if (i == base) continue;
        for (int round = 0; round < ROUNDS; round++)
            ratio[round] = least_ms[base][round] / least_ms[i][round];
        qsort(ratio, ROUNDS, sizeof *ratio, mo_rising);
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:f, s:f, s:i}", "model", model, "threads",
                                              set->solo[i].threads, "from", set->solo[base].threads, "gain",
                                              set->solo[base].min_ms / set->solo[i].min_ms, "gain_median",
                                              mo_bench_percentile(ratio, ROUNDS, 50), "rounds", ROUNDS));
    }
}

int mo_bench_scaling(struct mo_bench_journal *journal, struct mo_bench_session *session,
                     const struct mo_bench_latency_options *options, const struct mo_bench_tenant *tenant,
                     moire_error *err) {
    const struct mo_bench_solo_spec moire = {.moire = options->spec.moire,
                                             .generic = !options->spec.moire && options->spec.generic};
    double least_ms[MO_BENCH_MAX_SYSTEMS][ROUNDS];
    struct mo_bench_solo_set set;
    char key[200];
    if (options->n_threads < 2 || (!moire.moire && !moire.generic)) return MOIRE_OK;
    snprintf(key, sizeof key, "%.160s scaling", tenant->name);
    if (mo_bench_journal_has(journal, key)) return MOIRE_OK;
    mo_bench_say(session, "%s, what more threads gain", tenant->name);
    int code = mo_bench_solo_open(session, tenant, options->threads, options->n_threads, &moire, &set, err);
    if (!code) code = take_turns(&set, options->spec.seconds, least_ms, err);
    mo_bench_solo_close(&set);
    json_t *list = json_object_get(journal->document, "scaling");
    if (!list) json_object_set_new(journal->document, "scaling", list = json_array());
    if (!code) add_rows(list, tenant->name, &set, least_ms);
    mo_bench_solo_free(set.solo, set.n);
    return code ? code : mo_bench_journal_note(journal, key, err);
}

static void print_mean(const json_t *rows, int threads, int from) {
    double sum = 0, median = 0;
    int n = 0;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        if ((int)mo_json_number(row, "threads") != threads) continue;
        sum += log(mo_json_number(row, "gain"));
        median += log(mo_json_number(row, "gain_median"));
        n++;
    }
    printf(
        "%d threads against %d: %.2fx in the geometric mean over %d models, %.2fx by the medians of rounds\n",
        threads, from, exp(sum / n), n, exp(median / n));
}

void mo_bench_scaling_print(const json_t *document) {
    const json_t *rows = json_object_get(document, "scaling");
    const char *first = "";
    size_t i;
    json_t *row;
    if (!json_array_size(rows)) return;
    printf("\n%-24s %7s %12s %12s\n", "model", "threads", "gain", "by rounds");
    json_array_foreach((json_t *)rows, i, row) printf(
        "%-24.24s %7d %11.2fx %11.2fx\n", mo_json_text(row, "model"), (int)mo_json_number(row, "threads"),
        mo_json_number(row, "gain"), mo_json_number(row, "gain_median"));
    json_array_foreach((json_t *)rows, i, row) { /* the first model has every number once */
        if (!i) first = mo_json_text(row, "model");
        if (strcmp(first, mo_json_text(row, "model")) != 0) break;
        print_mean(rows, (int)mo_json_number(row, "threads"), (int)mo_json_number(row, "from"));
    }
}
