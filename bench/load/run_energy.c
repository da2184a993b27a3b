/* SPDX-License-Identifier: Apache-2.0
 * run_energy.c - see run_energy.h. */
#include "bench/load/run_energy.h"

#include <string.h>

void mo_run_look(moire_runtime *runtime, struct mo_run_look *out) {
    out->n = 0;
    out->at = moire_now(runtime);
    if (moire_energy(runtime, out->row, MO_RUN_ENERGY_ROWS, &out->n, NULL)) out->n = 0;
    if (out->n > MO_RUN_ENERGY_ROWS) out->n = MO_RUN_ENERGY_ROWS;
}

static const char *basis(int measured, int rows) {
    return measured == rows ? "measured" : measured ? "measured and modelled" : "modelled";
}

json_t *mo_run_energy_json(moire_runtime *runtime, const struct mo_run_look *from,
                           const struct mo_run_look *to, int64_t queries) {
    char line[MO_RUNTIME_ENERGY_LINE] = "";
    double sum = 0;
    int whole = 0, measured = 0;
    if (to->n < 1 || to->n != from->n || to->at <= from->at) return NULL;
    json_t *rows = json_array();
    for (int i = 0; i < to->n; i++) {
        const moire_energy_row *r = &to->row[i];
        const double joules = r->joules - from->row[i].joules;
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:b, s:b, s:f}", "device", r->device, "domain",
                                              r->domain, "source", r->source, "measured", r->measured, "part",
                                              r->part, "joules", joules));
        if (r->part) continue;
        sum += joules;
        whole++;
        measured += r->measured != 0;
    }
    (void)mo_runtime_energy_line(runtime, line, sizeof line, NULL);
    const double seconds = (double)(to->at - from->at) * 1e-9;
    return json_pack("{s:f, s:f, s:f, s:I, s:f, s:s, s:s, s:o}", "seconds", seconds, "joules", sum, "watts",
                     sum / seconds, "queries", (json_int_t)queries, "joules_query",
                     queries > 0 ? sum / (double)queries : 0.0, "basis", basis(measured, whole), "line", line,
                     "rows", rows);
}
