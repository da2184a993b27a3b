/* SPDX-License-Identifier: Apache-2.0
 * front_show.c - fronts as table and JSON; see front_show.h. */
#include "tools/moire/front/front_show.h"

#include <jansson.h>
#include <stdio.h>

bool mo_front_shown(const struct mo_fronts *all, const struct mo_store_point *p) {
    return all->every_point || p->state == MO_POINT_VERSION;
}

double mo_front_time_at(const struct mo_store_point *p, double pressure) {
    return p->ns[1] > 0 ? mo_version_ns(p->ns, pressure) : p->ns[0];
}

double mo_front_from(const struct mo_store_front *f, int version) {
    for (int step = 0; step <= 100; step++) {
        double mine = mo_front_time_at(&f->point[version], step / 100.0);
        bool fastest = f->point[version].state == MO_POINT_VERSION;
        for (int i = 0; fastest && i < f->n; i++)
            if (i != version && f->point[i].state == MO_POINT_VERSION)
                fastest = mine <= mo_front_time_at(&f->point[i], step / 100.0);
        if (fastest) return step / 100.0;
    }
    return -1;
}

static void from_text(double from, char out[16]) {
    if (from < 0)
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, "%.2f", from);
}

/* --- table --- */
static void print_point(const struct mo_store_front *f, int i) {
    const struct mo_store_point *p = &f->point[i];
    char from[16];
    from_text(mo_front_from(f, i), from);
    printf("  %-9s %5s %9.1f %6lld %8.0f %9.0f ", mo_point_state_name(p->state), from,
           (double)p->parallelism_milli * 1e-3, (long long)p->units, (double)p->block_bytes / 1024,
           (double)p->l3_bytes / 1024);
    if (f->cores > 2) printf(" %8.1f ", p->part_ns * 1e-3);
    for (int k = 0; k < MO_STORE_LEVELS; k++)
        if (p->ns[k] > 0)
            printf(" %8.1f", p->ns[k] * 1e-3);
        else
            printf(" %8s", "-");
    printf("  %s %s\n", p->family, p->knobs);
}

void mo_front_text(const struct mo_fronts *all) {
    int layers[MO_STORE_VERSIONS + 1] = {0}, uses = 0;
    for (int i = 0; i < all->n; i++) {
        const struct mo_store_front *f = &all->row[i].front;
        int versions = mo_front_versions(f);
        layers[versions < MO_STORE_VERSIONS ? versions : MO_STORE_VERSIONS] += all->row[i].uses;
        uses += all->row[i].uses;
        printf("%s  x%d, %d version%s, share %.1f us\n", f->signature, all->row[i].uses, versions,
               versions == 1 ? "" : "s", f->share_ns * 1e-3);
        printf("  %-9s %5s %9s %6s %8s %9s ", "state", "from", "parallel", "units", "block KB", "beyond KB");
        if (f->cores > 2) printf(" us on %-3d", f->cores);
        printf(" us on one core at pressure 0, 0.2, 0.4, 0.6, 0.8, 1\n");
        for (int k = 0; k < f->n; k++)
            if (mo_front_shown(all, &f->point[k])) print_point(f, k);
    }
    printf("\n%d layers:", uses);
    for (int i = 0; i <= MO_STORE_VERSIONS; i++)
        if (layers[i])
            printf(" %d with %d version%s (%.0f %%)", layers[i], i, i == 1 ? "" : "s",
                   100.0 * layers[i] / uses);
    printf("; %d without a front\n", all->untuned);
}

/* --- JSON --- */
static json_t *point_json(const struct mo_front_row *row, int i) {
    const struct mo_store_front *f = &row->front;
    char why[MO_FRONT_WHY];
    mo_front_why(row, i, why);
    const struct mo_store_point *p = &f->point[i];
    json_t *ns = json_array();
    for (int k = 0; k < MO_STORE_LEVELS; k++)
        json_array_append_new(ns, p->ns[k] > 0 ? json_real(p->ns[k]) : json_null());
    return json_pack("{si ss ss ss sI sf sI sI so sf sf ss}", "number", i + 1, "state",
                     mo_point_state_name(p->state), "family", p->family, "knobs", p->knobs, "units",
                     (json_int_t)p->units, "parallelism", (double)p->parallelism_milli * 1e-3, "block_bytes",
                     (json_int_t)p->block_bytes, "l3_bytes", (json_int_t)p->l3_bytes, "ns", ns,
                     "fastest_from", mo_front_from(f, i), "part_ns", p->part_ns, "why", why);
}

int mo_front_json(const struct mo_fronts *all, moire_error *err) {
    json_t *layers = json_array();
    for (int i = 0; i < all->n; i++) {
        const struct mo_store_front *f = &all->row[i].front;
        json_t *points = json_array();
        for (int k = 0; k < f->n; k++)
            if (mo_front_shown(all, &f->point[k])) json_array_append_new(points, point_json(&all->row[i], k));
        json_array_append_new(layers, json_pack("{ss si sf si so si}", "layer", f->signature, "uses",
                                                all->row[i].uses, "share_ns", f->share_ns, "cores", f->cores,
                                                "points", points, "refused", all->row[i].n_refused));
    }
    json_t *doc = json_pack("{ss si so}", "model", all->model, "untuned", all->untuned, "layers", layers);
    int rc = doc ? json_dumpf(doc, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(doc);
    putchar('\n');
    return rc ? mo_fail(err, MOIRE_EIO, "cannot write JSON") : MOIRE_OK;
}
