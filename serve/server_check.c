/* SPDX-License-Identifier: Apache-2.0
 * server_check.c - `moire serve --check`: every fault of a repository, without serving it; see server.h. */
#include <string.h>
#include "serve/protocol/kserve.h"
#include "serve/repository/scan.h"
#include "serve/server.h"

struct report {
    FILE *out;
};

static void say(void *user, bool fault, const char *line) {
    const struct report *r = user;
    fprintf(r->out, "%s: %s\n", fault ? "fault" : "note", line);
}

static void print_port(FILE *out, const char *what, const moire_port *p) {
    const char *type = ms_type_name(p->dtype);
    fprintf(out, "  %s %s %s [", what, p->name, type ? type : "?");
    for (int i = 0; i < p->rank; i++)
        fprintf(out, "%s%lld", i ? "," : "", (long long)p->shape[i]);
    fprintf(out, "%s]\n", p->rank < 0 ? "any rank" : "");
}

static void check_model(const struct ms_found *f, FILE *out, struct ms_faults *faults) {
    moire_model *m;
    moire_error err = {0};
    moire_port p;
    if (!*f->path) return; /* the scan has said why */
    if (moire_model_open(f->path, &m, &err)) {
        ms_fault_say(faults, "%s: %s", f->name, err.message);
        return;
    }
    fprintf(out, "%s, version %s: %s\n", f->name, f->version, f->path);
    for (int i = 0; i < moire_model_n_inputs(m); i++)
        if (!moire_model_input(m, i, &p)) print_port(out, "input ", &p);
    for (int i = 0; i < moire_model_n_outputs(m); i++)
        if (!moire_model_output(m, i, &p)) print_port(out, "output", &p);
    if (moire_model_n_inputs(m) > MS_PORTS || moire_model_n_outputs(m) > MS_PORTS)
        ms_fault_say(faults, "%s: more than %d inputs or outputs", f->name, MS_PORTS);
    moire_model_close(m);
}

int ms_server_check(const char *repository, FILE *out, int *n_faults, moire_error *err) {
    struct report report = {.out = out};
    struct ms_faults faults = {.say = say, .user = &report};
    struct ms_scan scan;
    const int rc = ms_scan_open(repository, NULL, &scan, &faults, err);
    if (rc) return rc;
    for (int i = 0; i < scan.n; i++)
        check_model(&scan.found[i], out, &faults);
    if (!scan.n && !faults.n) ms_fault_say(&faults, "%s has no model", repository);
    fprintf(out, "%d models and versions, %d faults\n", scan.n, faults.n);
    *n_faults = faults.n;
    ms_scan_close(&scan);
    return MOIRE_OK;
}
