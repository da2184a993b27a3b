/* SPDX-License-Identifier: Apache-2.0
 * kernels.c - the `moire bench kernels` command; see kernels.h.
 *
 * Ceilings come first, in the same run.  Then layer by layer: moire and the peer take turns in slices, with a
 * pause before each in which the last one's spinning threads fall asleep, so that noise meets both alike. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "bench/alone/latency.h"
#include "bench/kernels/kernels.h"
#include "bench/kernels/timing.h"

enum { PAUSE_MS = 20, ASK_TIMEOUT_S = 120, MAX_SLICES = 16 };

static const struct mo_bench_system onednn = {"onednn", "onednn", "layers", "oneDNN", NULL};

struct command {
    struct mo_bench_session *session;
    const struct mo_bench_kernels_options *options;
    struct mo_bench_journal journal;
    struct mo_ceiling ceiling[8];   /* of each number of threads */
    struct mo_bench_child child[8]; /* pid 0: none */
};

/* One layer on one number of threads. */
struct piece {
    double min_ns, median_ns;
    struct mo_bench_solo peer; /* n = 0: not measured; `why` */
    char peer_kernel[128];
};

/* --- the peer ------------------------------------------------------------------------------------------- */
static int start_peers(struct command *c, moire_error *err) {
    const struct mo_bench_tenant nobody = {.name = "layers", .model = "-"};
    const int64_t no_qos = 0;
    const char *missing = c->options->onednn ? mo_bench_missing(c->session, onednn.family) : NULL;
    if (missing) return mo_fail(err, MOIRE_EIO, "--peer onednn: %s", missing);
    int code = MOIRE_OK;
    for (int t = 0; c->options->onednn && !code && t < c->options->n_threads; t++)
        code = mo_bench_child_start(c->session, &onednn, &nobody, &no_qos, 1, c->options->threads[t], false,
                                    false, &c->child[t], err);
    return code;
}

/* Tells the peer which layer comes; what it cannot do is its `why`. */
static int announce(struct command *c, int t, const struct mo_bench_layer *layer, struct piece *p,
                    moire_error *err) {
    char command[480];
    const char *answer;
    if (!c->child[t].pid) return MOIRE_OK;
    if (!layer->spec[0]) {
        snprintf(p->peer.why, sizeof p->peer.why, "no such layer there");
        return MOIRE_OK;
    }
    snprintf(command, sizeof command, "layer %s", layer->spec);
    int code = mo_bench_child_ask(&c->child[t], command, ASK_TIMEOUT_S, &answer, err);
    if (!code && !strncmp(answer, "layer ", 6)) {
        snprintf(p->peer_kernel, sizeof p->peer_kernel, "%s", answer + 6);
        p->peer.system = &onednn;
    } else if (code == MOIRE_EUNSUPPORTED) {
        snprintf(p->peer.why, sizeof p->peer.why, "%.190s", err->message);
        code = MOIRE_OK;
    }
    return code;
}

/* --- one layer ------------------------------------------------------------------------------------------ */
static double middle(const double *v, int n) {
    double sorted[MAX_SLICES];
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > v[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = v[i];
    }
    return sorted[n / 2];
}

static int measure(struct command *c, int t, const struct mo_bench_layers *layers,
                   const struct mo_bench_layer *layer, struct piece *p, moire_error *err) {
    const struct mo_bench_kernels_options *o = c->options;
    const int slices = o->slices < MAX_SLICES ? o->slices : MAX_SLICES;
    const int64_t slice_ns = (int64_t)(o->seconds * 1e9) / slices;
    const int pause = o->threads[t] > 1 ? PAUSE_MS : 0;
    double medians[MAX_SLICES];
    char command[64];
    snprintf(command, sizeof command, "solo 0 %lld", (long long)(slice_ns / 1000000));
    int code = announce(c, t, layer, p, err);
    p->min_ns = INFINITY;
    for (int i = 0; !code && i < slices; i++) {
        double best;
        const char *answer;
        if (mo_bench_interrupted(c->session)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
        poll(NULL, 0, pause);
        code = mo_timing_layer(c->session->env, layers->plan, layers->instance, layer->step, o->threads[t],
                               slice_ns, &best, &medians[i], err);
        if (!code && best < p->min_ns) p->min_ns = best;
        if (code || !p->peer.system) continue;
        poll(NULL, 0, pause);
        code = mo_bench_child_ask(&c->child[t], command, ASK_TIMEOUT_S, &answer, err);
        if (!code) code = mo_bench_solo_append(&p->peer, answer, err);
    }
    if (code) return code;
    p->median_ns = middle(medians, slices);
    mo_bench_solo_summarize(&p->peer);
    return MOIRE_OK;
}

static json_t *row_of(const struct command *c, int t, const char *model, const struct mo_bench_layers *layers,
                      const struct mo_bench_layer *layer, const struct piece *p) {
    const struct mo_step *s = &layers->plan->steps[layer->step];
    const struct mo_ceiling *ceiling = &c->ceiling[t];
    const char *limit;
    const double bound = mo_ceiling_bound(ceiling, (double)s->executed, (double)s->bytes, &limit);
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, "
        "s:s}",
        "model", model, "layer", layer->text, "input", layer->input, "output", layer->output, "signature",
        layer->key, "uses", layer->uses, "threads", c->options->threads[t], "workers",
        mo_step_workers(s, c->options->threads[t]), "units", (json_int_t)s->units, "kernel", s->kernel,
        "kind", s->kind, "flops", (json_int_t)s->flops, "executed_flops", (json_int_t)s->executed, "bytes",
        (json_int_t)s->bytes, "min_ms", p->min_ns * 1e-6, "median_ms", p->median_ns * 1e-6, "gflops",
        (double)s->flops / p->min_ns, "executed_gflops", (double)s->executed / p->min_ns, "gb_s",
        (double)s->bytes / p->min_ns, "fma_share", (double)s->executed / p->min_ns / ceiling->fma_gf,
        "roofline_share", bound / p->min_ns, "limit", limit);
    if (row && p->peer.n)
        json_object_set_new(row, "onednn",
                            json_pack("{s:f, s:f, s:f, s:s, s:f}", "min_ms", p->peer.min_ms, "median_ms",
                                      p->peer.median_ms, "gflops", (double)s->flops / (p->peer.min_ms * 1e6),
                                      "kernel", p->peer_kernel, "speed_of_moire",
                                      p->peer.min_ms * 1e6 / p->min_ns));
    else if (row && p->peer.why[0])
        json_object_set_new(row, "onednn", json_pack("{s:s}", "why", p->peer.why));
    return row;
}

static int measure_layer(struct command *c, int t, const char *model, const struct mo_bench_layers *layers,
                         int at, moire_error *err) {
    const struct mo_bench_layer *layer = &layers->layer[at];
    char key[360];
    struct piece p = {0};
    snprintf(key, sizeof key, "%s x%d", layer->key, c->options->threads[t]);
    if (mo_bench_journal_has(&c->journal, key)) return MOIRE_OK;
    mo_bench_say(c->session, "%s, layer %d of %d, %d thread%s: %s %s", model, at + 1, layers->n,
                 c->options->threads[t], c->options->threads[t] == 1 ? "" : "s", layer->text, layer->output);
    int code = measure(c, t, layers, layer, &p, err);
    json_t *row = code ? NULL : row_of(c, t, model, layers, layer, &p);
    mo_bench_solo_free(&p.peer, 1);
    if (code) return code;
    if (!row || json_array_append_new(mo_bench_journal_results(&c->journal), row))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return mo_bench_journal_note(&c->journal, key, err);
}

/* --- models --------------------------------------------------------------------------------------------- */
static int measure_model(struct command *c, const char *model, moire_error *err) {
    const struct mo_bench_kernels_options *o = c->options;
    struct mo_region *region = mo_region_create(c->session->env);
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    const char *slash = strrchr(model, '/');
    struct mo_bench_tenant tenant = {.name = slash ? slash + 1 : model, .model = model};
    for (int i = 0; i < o->n_shapes && i < MO_BENCH_MAX_INPUTS; i++)
        tenant.shapes[tenant.n_shapes++] = o->shapes[i];
    int code = mo_bench_resolve(c->session, region, &tenant, err);
    const struct mo_frontend_options front = {
        .shapes = tenant.shapes, .n_shapes = tenant.n_shapes, .exact = o->exact};
    struct mo_bench_layers layers = {.env = c->session->env};
    if (!code)
        code = mo_bench_layers_open(c->session->env, tenant.model, &front,
                                    c->session->generic ? NULL : c->session->store, &layers, err);
    for (int i = 0; !code && i < layers.n; i++)
        for (int t = 0; !code && t < o->n_threads; t++)
            code = measure_layer(c, t, tenant.name, &layers, i, err);
    if (layers.layer) mo_bench_layers_close(&layers);
    mo_region_destroy(region);
    return code;
}

static int measure_ceilings(struct command *c, const char *key, bool again, moire_error *err) {
    json_t *list = json_array();
    int code = MOIRE_OK;
    for (int t = 0; !code && t < c->options->n_threads; t++) {
        double gf;
        if (again)
            code = mo_ceiling_again(c->session->env, &c->ceiling[t], &gf, err);
        else
            code = mo_ceiling_measure(c->session->env, mo_isa_detect(), c->options->threads[t],
                                      &c->ceiling[t], err);
        if (code) break;
        json_array_append_new(
            list, again ? json_pack("{s:i, s:f}", "threads", c->options->threads[t], "fma_gflops", gf)
                        : mo_ceiling_json(&c->ceiling[t]));
    }
    json_object_set_new(c->journal.document, key, list);
    return code;
}

/* Geometric mean of the speed against the peer, and by how far the large 3x3 and 1x1 layers use the ceiling.
 */
static void summarize(struct command *c) {
    json_t *summary = json_array(), *row;
    for (int t = 0; t < c->options->n_threads; t++) {
        double log_sum = 0, least = INFINITY;
        int n = 0, large = 0;
        size_t i;
        json_array_foreach(mo_bench_journal_results(&c->journal), i, row) {
            if (json_integer_value(json_object_get(row, "threads")) != c->options->threads[t]) continue;
            double speed =
                json_number_value(json_object_get(json_object_get(row, "onednn"), "speed_of_moire"));
            double share = json_number_value(json_object_get(row, "fma_share"));
            if (speed > 0) log_sum += log(speed), n++;
            if (json_number_value(json_object_get(row, "flops")) < 1e8 || share <= 0) continue;
            least = fmin(least, share);
            large++;
        }
        json_t *one = json_pack("{s:i, s:i, s:i}", "threads", c->options->threads[t], "compared", n,
                                "large_layers", large);
        if (one && n) json_object_set_new(one, "geomean_speed_vs_onednn", json_real(exp(log_sum / n)));
        if (one && large) json_object_set_new(one, "least_fma_share_of_large_layers", json_real(least));
        json_array_append_new(summary, one);
    }
    json_object_set_new(c->journal.document, "summary", summary);
}

int mo_bench_kernels(struct mo_bench_session *session, const struct mo_bench_kernels_options *options,
                     json_t **out, moire_error *err) {
    struct command *c = mo_alloc(session->env, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    *c = (struct command){.session = session, .options = options};
    int code = mo_bench_journal_open(session, "kernels", MO_BENCH_MEASURED, options->save, options->resume,
                                     &c->journal, err);
    if (!code) {
        code = measure_ceilings(c, "ceilings", false, err);
        if (!code) code = start_peers(c, err);
        for (int i = 0; !code && i < options->n_models; i++)
            code = measure_model(c, options->models[i], err);
        moire_error ignored;
        if (!code) code = measure_ceilings(c, "ceilings_after", true, &ignored);
        summarize(c);
        *out = mo_bench_journal_finish(&c->journal, code == MOIRE_OK);
    }
    for (int t = 0; t < options->n_threads; t++)
        mo_bench_child_stop(&c->child[t]);
    mo_free(session->env, c);
    return code;
}
