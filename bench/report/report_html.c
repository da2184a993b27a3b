/* SPDX-License-Identifier: Apache-2.0
 * report_html.c - the page of a served or simulated scenario: its sections, the answer first. */
#include <string.h>
#include "bench/report/report.h"
#include "bench/report/report_page.h"

static void experiment(FILE *out, const struct mo_page_view *view) {
    mo_page_experiment(out, view->document);
}

static const mo_page_section sections[] = {
    mo_page_headline, mo_page_answers,  mo_page_tenants, mo_page_loads, mo_page_latency,
    mo_page_choices,  mo_page_timeline, mo_page_targets, mo_page_cost,  experiment,
};

void mo_page_view_init(struct mo_page_view *view, const json_t *document, struct mo_curve *curves) {
    size_t i;
    json_t *t;
    memset(view, 0, sizeof *view);
    view->document = document;
    view->curves = curves;
    view->n_curves = mo_doc_curves(document, curves);
    json_array_foreach(json_object_get(json_object_get(document, "calibration"), "tenants"), i, t) {
        if (view->n_tenants < MO_MERGED_TENANTS) view->tenant[view->n_tenants++] = mo_json_text(t, "name");
    }
    mo_short_names(view->tenant, view->n_tenants, view->shown);
}

const char *mo_page_tenant(const struct mo_page_view *view, const char *name) {
    for (int i = 0; i < view->n_tenants; i++)
        if (!strcmp(view->tenant[i], name)) return view->shown[i];
    return name;
}

static void page(FILE *out, const void *what) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        sections[i](out, what);
    mo_page_end(out);
}

int mo_bench_write_html(const struct mo_env *env, const json_t *document, const char *path,
                        moire_error *err) {
    struct mo_page_view view;
    struct mo_curve *curves = mo_alloc(env, MO_CURVES * sizeof *curves);
    if (!curves) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    mo_page_view_init(&view, document, curves);
    int code = mo_page_write(env, page, &view, path, err);
    mo_free(env, curves);
    return code;
}
