/* SPDX-License-Identifier: Apache-2.0
 * inss_several.c - three to five models on a GPU, which nobody measured: InSS's sum over neighbours against
 * the linear model by which the simulator slows models down; see inss_check.h. */
#include <math.h>
#include "bench/fit/inss_errors.h"
#include "bench/data/process.h"

enum { DRAWS = 500, MOST = 4 };

/* One model beside n others, equal shares, batches 1 to 32: both models' slowdowns. */
static void one_draw(const struct mo_inss_test *t, const struct mo_interference *linear, int self, int n,
                     struct mo_rng *rng, struct mo_inss_errors *out) {
    struct mo_inss_use predicted[MOST];
    struct mo_share_use use[MOST + 1];
    const int share = MO_SHARE_WHOLE / (n + 1);
    for (int i = 0; i <= n; i++) {
        int m = i ? (int)(mo_rng_uniform(rng) * t->pairs->n_models) : self;
        const struct mo_share_profile *p = t->pairs->model[m].table.profile;
        int batch = 1 + (int)(mo_rng_uniform(rng) * (p->max_batch < 32 ? p->max_batch : 32));
        use[i] = mo_share_use_at(p, batch, share);
        if (i) {
            double alone = mo_inss_alone_ms(&t->model[m], batch, share);
            predicted[i - 1] = mo_inss_use_of(&t->model[m], batch, alone);
        }
    }
    mo_inss_count(out, mo_inss_slowdown(&t->model[self], predicted, n),
                  mo_interference(linear, &use[0], &use[1], n));
}

int mo_inss_test_several(struct mo_inss_test *t, moire_error *err) {
    static const char *const what[] = {"beside two", "beside three", "beside four"};
    struct mo_interference linear;
    struct mo_rng rng;
    int code = mo_pairs_fit(t->pairs, NULL, true, &linear, err);
    mo_rng_seed(&rng, t->o->seed, 0);
    for (int n = 2; n <= MOST; n++)
        for (int m = 0; !code && m < t->pairs->n_models; m++) {
            struct mo_inss_errors errors = {0};
            for (int i = 0; i < DRAWS; i++)
                one_draw(t, &linear, m, n, &rng, &errors);
            code = mo_inss_add_row(t, t->pairs->model[m].name, what[n - 2], MO_INSS_MODEL_ONLY, &errors, NULL,
                                   err);
        }
    return code;
}
