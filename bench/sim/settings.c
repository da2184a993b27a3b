/* SPDX-License-Identifier: Apache-2.0
 * settings.c - see settings.h. */
#include "bench/sim/settings.h"

#include <stdlib.h>

/* As text: a number in a file may have lost its last digits. */
static json_t *real(double value) {
    return json_sprintf("%.9g", value);
}

json_t *mo_bench_settings(const struct mo_bench_simulate_options *s) {
    const struct mo_bench_serve_options *o = &s->serve;
    json_t *with = json_array();
    for (int i = 0; i < s->n_with; i++)
        json_array_append_new(with, json_string(s->with[i]));
    return json_pack("{s:s, s:o, s:s, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o}", "machine",
                     s->machine, "with", with, "scenario", o->scenario, "objective", o->objective,
                     "calibration", o->calibration, "arrivals", mo_bench_process_json(o), "in_time",
                     real(o->find_max), "step", real(o->step), "max_load", real(o->max_load), "expected",
                     real(o->expected), "seconds", real(o->seconds), "warmup", real(o->warmup),
                     "queries_a_tenant", o->enough, "seeds", mo_bench_seeds_json(o));
}

static int refuse(const json_t *result, const char *key, const json_t *was, const json_t *is,
                  moire_error *err) {
    const size_t how = JSON_ENCODE_ANY | JSON_COMPACT;
    char *old = json_dumps(was, how), *now = json_dumps(is, how);
    int code =
        mo_fail(err, MOIRE_EINVAL,
                "%s: was simulated with other settings, \"%s\" %s in place of %s; name another --output",
                mo_json_text(result, "piece"), key, old ? old : "unknown", now ? now : "unknown");
    free(old);
    free(now);
    return code;
}

int mo_bench_settings_check(const json_t *result, const json_t *settings, moire_error *err) {
    const json_t *old = json_object_get(result, "settings");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)settings, key, value) {
        const json_t *was = json_object_get(old, key);
        if (!json_equal(was, value)) return refuse(result, key, was, value, err);
    }
    return MOIRE_OK;
}
