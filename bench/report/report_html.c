/* SPDX-License-Identifier: Apache-2.0
 * report_html.c - the page of a served or simulated scenario: its sections, the answer first. */
#include "bench/report/energy_by_load.h"
#include "bench/report/frontier.h"
#include "bench/report/report.h"
#include "bench/report/report_page.h"
#include "bench/report/short_names.h"
#include "bench/sim/by_load.h"

static void experiment(FILE *out, const struct mo_page_view *view) {
    mo_page_experiment(out, view->document);
}

static void same_loads(FILE *out, const struct mo_page_view *view) {
    mo_bench_by_load_section(out, view->document);
}

static const mo_page_section sections[] = {
    mo_page_headline, mo_page_answers, mo_page_frontier,  mo_page_tenants,  mo_page_loads,
    mo_page_latency,  mo_page_choices, mo_page_neighbour, mo_page_timeline, mo_page_targets,
    mo_page_energy,   mo_page_cost,    same_loads,        experiment,
};

int mo_page_view_open(const struct mo_env *env, const json_t *document, struct mo_page_view *view,
                      moire_error *err) {
    *view = (struct mo_page_view){.document = mo_short_document(document),
                                  .curves = mo_alloc(env, MO_CURVES * sizeof *view->curves)};
    if (!view->document || !view->curves) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a report");
    view->n_curves = mo_doc_curves(view->document, view->curves);
    return MOIRE_OK;
}

void mo_page_view_close(const struct mo_env *env, struct mo_page_view *view) {
    json_decref((json_t *)view->document);
    mo_free(env, view->curves);
}

json_t *mo_page_tenant_list(const struct mo_page_view *view) {
    return json_object_get(json_object_get(view->document, "calibration"), "tenants");
}

static void page(FILE *out, const void *what) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        sections[i](out, what);
    mo_page_end(out);
}

int mo_bench_write_html(const struct mo_env *env, const json_t *document, const char *path,
                        moire_error *err) {
    struct mo_page_view view;
    int code = mo_page_view_open(env, document, &view, err);
    if (!code) code = mo_page_write(env, page, &view, path, err);
    mo_page_view_close(env, &view);
    return code;
}
