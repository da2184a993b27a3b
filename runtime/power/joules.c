/* SPDX-License-Identifier: Apache-2.0
 * joules.c - chooses meters; see joules.h. */
#include "runtime/power/joules.h"

#include <stdio.h>
#include <string.h>
#include "runtime/power/boards.h"
#include "runtime/power/perf_energy.h"
#include "runtime/power/rapl.h"

/* In order of preference. */
static const struct mo_energy_meter *const meters[MO_JOULES_KINDS][3] = {
    [MO_JOULES_CORES] = {&mo_energy_rapl, &mo_energy_perf},
    [MO_JOULES_BOARDS] = {&mo_energy_boards},
};

static int open_kind(const struct mo_energy_config *c, int kind, struct mo_joules *out, moire_error *err) {
    char *line = out->by[kind].line;
    const size_t room = sizeof out->by[kind].line;
    snprintf(line, room, "not measured");
    for (int i = 0; i < 3 && meters[kind][i]; i++) {
        const struct mo_energy_meter *m = meters[kind][i];
        moire_error why;
        const int code = m->open(c, &out->by[kind].opened, &why);
        if (!code) {
            out->by[kind].meter = m;
            snprintf(line, room, "measured by %s: %s", m->name, m->about);
            return MOIRE_OK;
        }
        if (code == MOIRE_ENOMEM) return mo_fail(err, code, "%s", why.message);
        const size_t used = strlen(line);
        snprintf(line + used, room - used, "%s %s: %.250s", i ? ";" : ":", m->name, why.message);
    }
    return MOIRE_OK;
}

int mo_joules_open(const struct mo_energy_config *config, struct mo_joules *out, moire_error *err) {
    int code = MOIRE_OK;
    *out = (struct mo_joules){.env = config->env};
    for (int k = 0; k < MO_JOULES_KINDS && !code; k++)
        code = open_kind(config, k, out, err);
    if (code) mo_joules_close(out);
    return code;
}

void mo_joules_close(struct mo_joules *j) {
    for (int k = 0; k < MO_JOULES_KINDS; k++)
        if (j->by[k].meter) j->by[k].meter->close(j->by[k].opened);
    *j = (struct mo_joules){0};
}

bool mo_joules_measured(const struct mo_joules *j, enum mo_joules_of of) {
    return j->by[of].meter != NULL;
}

const char *mo_joules_line(const struct mo_joules *j, enum mo_joules_of of) {
    return j->by[of].line;
}

int mo_joules_read(struct mo_joules *j, moire_energy_row *rows) {
    int n = 0;
    for (int k = 0; k < MO_JOULES_KINDS; k++)
        if (j->by[k].meter) n += j->by[k].meter->read(j->by[k].opened, rows + n);
    return n;
}

double mo_joules_sum(const moire_energy_row *rows, int n, const char *device) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (!rows[i].part && (!device || !strcmp(rows[i].device, device))) sum += rows[i].joules;
    return sum;
}
