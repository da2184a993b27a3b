/* SPDX-License-Identifier: Apache-2.0
 * bench_survey.c - `moire bench survey` as the command line asks for it. */
#include "tools/moire/survey/survey.h"
#include "tools/moire/verbs/bench_common.h"

static void pick_batches(const struct mo_options *o, struct mo_survey_options *out) {
    out->n_batches = o->batches.n ? o->batches.n : 1;
    out->batch[0] = 1;
    for (int i = 0; i < o->batches.n; i++)
        out->batch[i] = (int)o->batches.value[i];
}

int mo_bench_run_survey(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                        moire_error *err) {
    struct mo_words families;
    struct mo_survey_list list = {0};
    struct mo_survey_options survey = {.list = &list};
    struct mo_bench_latency_options *alone = &survey.alone;
    int code = mo_bench_pick_families(o, &families, err);
    if (code) return code;
    *alone = (struct mo_bench_latency_options){.spec = {.moire = !o->only_generic,
                                                        .generic = true,
                                                        .families = families.word,
                                                        .n_families = families.n,
                                                        .seconds = o->seconds > 0 ? o->seconds : 1,
                                                        .slices = 5},
                                               .save = o->output,
                                               .resume = o->resume};
    pick_batches(o, &survey);
    code = mo_bench_pick_threads(s, o, s->cores, alone->threads, &alone->n_threads, err);
    if (!code) code = mo_survey_list_make(s->env, &o->operands, &list, err);
    if (!code) code = mo_survey(s, &survey, document, err);
    mo_survey_list_free(s->env, &list);
    return code;
}
