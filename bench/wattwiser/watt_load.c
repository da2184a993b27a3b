/* SPDX-License-Identifier: Apache-2.0
 * watt_load.c - the load of a pair of models by step, read from a file; see watt_run.h. */
#include <string.h>
#include "bench/wattwiser/watt_run.h"
#include "runtime/base/csv.h"
#include "runtime/base/file.h"

static const double least_pct = 0.1, most_pct = 200;

static int read_header(struct mo_csv *c, void *self) {
    static const char header[] = "step,first_pct,second_pct";
    (void)self;
    return mo_csv_is(c, header) ? MOIRE_OK : mo_csv_fail(c, "the header must be %s", header);
}

static int read_row(struct mo_csv *c, void *self) {
    struct mo_watt_load *load = self;
    double step, pct;
    if (load->n == MO_WATT_STEPS) return mo_csv_fail(c, "more than %d steps", MO_WATT_STEPS);
    if (!mo_csv_number(c, 0, MO_WATT_STEPS, &step) || (int)step != load->n)
        return mo_csv_fail_cell(c, "steps are numbered from 0: %d is next, not '%s'", load->n, c->shown);
    for (int m = 0; m < MO_WATT_MODELS; m++) {
        if (!mo_csv_number(c, least_pct, most_pct, &pct))
            return mo_csv_fail_cell(c, "a load must be a number from %g to %g %%, not '%s'", least_pct,
                                    most_pct, c->shown);
        load->part[load->n][m] = pct / 100;
    }
    load->n++;
    return mo_csv_more(c) ? mo_csv_fail(c, "more cells than columns") : MOIRE_OK;
}

int mo_watt_load_read(const struct mo_env *env, const char *path, struct mo_watt_load *out,
                      moire_error *err) {
    static const struct mo_csv_form form = {.magic = "# moire-load 1",
                                            .what = "a load by steps",
                                            .unit = "step",
                                            .header = read_header,
                                            .row = read_row};
    char *text;
    size_t n;
    memset(out, 0, sizeof *out);
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (!code) code = mo_csv_read(&form, path, text, n, out, err);
    if (code != MOIRE_OK) out->n = 0;
    mo_free(env, text);
    return code;
}
