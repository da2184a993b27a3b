/* SPDX-License-Identifier: Apache-2.0
 * compile_show.c - see compile_show.h. */
#include "tools/moire/compile/compile_show.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include "tools/moire/compile/compile_left.h"
#include "tools/moire/slow_show.h"
#include "variants/store.h"

static const int64_t SHOW_NS = INT64_C(10000000000);

static double gflops(const struct mo_layer_result *r) {
    double ns = r->generic_ns > 0 && r->generic_ns < r->min_ns ? r->generic_ns : r->min_ns;
    return ns > 0 ? (double)r->flops / ns : 0;
}

void mo_compile_show_began(void *ctx, int pending, int other_number) {
    const struct mo_compile_progress *p = ctx;
    if (other_number)
        fprintf(
            stderr,
            "%d of %d layers are searched anew: the store has versions of them that were chosen for another "
            "number than %d\n",
            other_number, pending, p->versions);
}

void mo_compile_show_progress(void *ctx, const struct mo_search_progress *now) {
    struct mo_compile_progress *p = ctx;
    const struct mo_layer_result *layer = now->layer;
    int done = now->done, total = now->total;
    bool due = mo_now(p->env) - p->last_shown >= SHOW_NS;
    char bar[25], left[24] = "not known yet";
    if (now->left_s >= 0) snprintf(left, sizeof left, "%.0f s", now->left_s);
    for (int i = 0; i < 24; i++)
        bar[i] = i < 24 * done / (total ? total : 1) ? '#' : '.';
    bar[24] = 0;
    if (p->terminal) {
        fprintf(stderr, "\r[%s] %d/%d  %.3s  %-52.52s %7.1f GF/s  ETA %s \033[K", bar, done, total,
                mo_layer_state_name(layer->state), layer->signature, gflops(layer), left);
        if (done == total) fputc('\n', stderr);
    } else if (10 * done / total > p->shown || due) {
        p->shown = 10 * done / total;
        p->last_shown = mo_now(p->env);
        fprintf(stderr, "%.0f s: %d of %d turns of layers, ETA %s\n",
                (double)(p->last_shown - p->started) * 1e-9, done, total, left);
    }
}

static void print_layer(const struct mo_layer_result *r) {
    char speedup[16] = "-", what[64] = "built-in";
    if (r->min_ns > 0 && r->generic_ns > 0)
        snprintf(speedup, sizeof speedup, "%.2f", r->generic_ns / r->min_ns);
    if (r->family[0] && r->state != MO_LAYER_GENERIC)
        snprintf(what, sizeof what, "%.20s %.40s", r->family, r->knobs);
    printf("%-8s %3d %9.1f %7.1f %7s %7.1f  %-34s %s\n", mo_layer_state_name(r->state), r->uses,
           r->min_ns * 1e-3, gflops(r), speedup, (double)r->source_bytes / 1024, what, r->signature);
    bool without = r->state == MO_LAYER_FAILED || (r->state == MO_LAYER_REUSED && !r->family[0]);
    if (without && r->trouble[0]) printf("         %s\n", r->trouble);
}

/* How many layers have how many versions, layers counted as often as the models use them. */
static void print_versions(const struct mo_search *search) {
    int layers[MO_STORE_VERSIONS + 1] = {0}, all = 0;
    for (int i = 0; i < mo_search_count(search); i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        enum mo_left_reason left = mo_left_reason(r);
        if (left != MO_LEFT_REASONS && left != MO_LEFT_BUILT_IN && left != MO_LEFT_NONE)
            continue; /* not known */
        layers[r->versions] += r->uses;
        all += r->uses;
    }
    printf("versions a layer:");
    for (int i = 0; i <= MO_STORE_VERSIONS; i++)
        if (layers[i]) printf(" %d: %d layers (%.0f %%)", i, layers[i], 100.0 * layers[i] / all);
    printf("\n");
}

/* What many cores would take, by the parts of the layers that were measured in this run. */
static void print_cores(const struct mo_search *search, int cores) {
    int narrow = 0, known = 0;
    double ns = 0;
    for (int i = 0; i < mo_search_count(search); i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        if (r->part_ns <= 0) continue;
        known++;
        narrow += r->units < cores;
        ns += r->part_ns * r->uses;
    }
    if (known)
        printf(
            "%d layers on %d cores: %.2f ms without barriers, each layer as long as its longest part alone; "
            "%d have fewer units\n",
            known, cores, ns * 1e-6, narrow);
}

static void print_verified(const struct mo_finished *m) {
    const struct mo_verified *v = &m->found;
    if (m->cut)
        printf("%s: the budget ended before it was %s; run the command again\n", m->file,
               m->verified ? "published: it loads from ONNX" : "verified and published");
    if (!m->verified) return;
    if (v->layers) {
        printf("%s: %d of %d compiled layers (%d kernels) verified in the model, largest error %.1e of the "
               "range in '%s'",
               m->file, v->layers, v->layers + v->unverified, v->versions, v->error, v->layer);
        if (v->whole) printf("; outputs differ by %.1e", v->whole_error);
        putchar('\n');
    }
    if (v->unverified)
        printf("%s: %d layers are not verified: their shapes are known at run time only and built-in kernels "
               "serve, or they do not run on random inputs\n",
               m->file, v->unverified);
    if (v->withdrawn)
        printf("%s: %d layer%s had a WRONG compiled kernel and use%s the built-in one\n", m->file,
               v->withdrawn, v->withdrawn > 1 ? "s" : "", v->withdrawn > 1 ? "" : "s");
}

static void print_published(const struct mo_compile_shown *o) {
    int n = 0;
    int64_t bytes = 0;
    for (int i = 0; i < o->n_models; i++) {
        print_verified(&o->model[i]);
        n += o->model[i].published;
        bytes += o->model[i].bytes;
    }
    if (n)
        printf("%d compiled model%s ready to be mapped, %.1f MB with packed weights\n", n, n > 1 ? "s" : "",
               (double)bytes * 1e-6);
}

bool mo_compile_busy_line(const struct mo_others *others, char *out, size_t n) {
    *out = 0;
    if (!mo_others_busy(others)) return false;
    snprintf(out, n, "the machine is busy: other programs or guests use %.2f of %d cores",
             mo_others_cores(others), others->cpus);
    return true;
}

void mo_compile_show_table(const struct mo_search *search, const struct mo_compile_shown *o) {
    int n = mo_search_count(search);
    if (n)
        printf("%-8s %3s %9s %7s %7s %7s  %-34s %s\n", "state", "use", "us", "GF/s", "speedup", "KB of C",
               "variant", "layer");
    for (int i = 0; i < n; i++)
        print_layer(mo_search_result(search, i));
    struct mo_compile_totals t = mo_compile_totals(search);
    printf("\n%d distinct layers: %d compiled, %d reused, %d better built-in, %d failed, %d not reached; "
           "%d candidates rejected\n",
           t.layers, t.compiled, t.reused, t.generic, t.failed, t.pending, t.rejected);
    if (mo_search_on_unit(search))
        printf("%d layers run on the matrix unit, by built-in kernels: there is nothing to compile\n",
               mo_search_on_unit(search));
    const bool versions = o->compile->search.versions > 1;
    double work;
    int tuned = mo_left_tuned(search, &work);
    if (versions && tuned < t.layers)
        printf("%d of %d layers tuned, %.0f %% of the work; the rest run as before\n", tuned, t.layers,
               100 * work);
    mo_left_print(stdout, search, versions);
    if (t.timed)
        printf("%s %d layers that were timed, on one core: %.2f ms, %.1f GF/s (built-in kernels %.2f ms; "
               "geometric mean speedup %.2f)\n",
               t.timed < t.layers ? "only the" : "all", t.timed, t.min_ms, t.timed_flops / t.min_ms * 1e-6,
               t.generic_ms, t.speedup);
    if (o->compile->search.cores > 2) print_cores(search, o->compile->search.cores);
    if (versions && tuned) print_versions(search);
    print_published(o);
    char busy[160];
    if (t.compiled && mo_compile_busy_line(&o->others, busy, sizeof busy))
        printf(
            "%s; times are too long and what was chosen by them may be wrong: --refine on a quiet machine\n",
            busy);
    printf("%.1f s; store %s\n", o->seconds, o->store);
}

static json_t *layer_json(const struct mo_layer_result *r) {
    return json_pack("{ss ss ss si sb si ss ss sI sf sf sf sI si si ss ss}", "layer", r->signature, "name",
                     r->name, "state", mo_layer_state_name(r->state), "versions", r->versions,
                     "versions_for_another_number", r->other_number, "uses", r->uses, "family", r->family,
                     "knobs", r->knobs, "flops", (json_int_t)r->flops, "min_ns", r->min_ns, "generic_ns",
                     r->generic_ns, "gflops", gflops(r), "source_bytes", (json_int_t)r->source_bytes, "tried",
                     r->tried, "rejected", r->rejected, "trouble", r->trouble, "versions_refused",
                     r->refused);
}

static json_t *model_json(const struct mo_finished *m) {
    const struct mo_verified *v = &m->found;
    json_t *row = json_pack("{ss sb sb sb si si si si sf ss}", "file", m->file, "verified", m->verified,
                            "published", m->published, "budget_ended", m->cut, "layers", v->layers, "kernels",
                            v->versions, "unverified", v->unverified, "withdrawn", v->withdrawn, "error",
                            v->error, "error_layer", v->layer);
    if (row) json_object_set_new(row, "slow", mo_slow_json(&m->slow));
    if (row && v->whole) {
        json_object_set_new(row, "outputs_error", json_real(fmin(v->whole_error, 1e300)));
        json_object_set_new(row, "outputs_allowed", json_real(fmin(v->whole_allowed, 1e300)));
    }
    return row;
}

int mo_compile_show_json(const struct mo_search *search, const struct mo_compile_shown *o, moire_error *err) {
    json_t *layers = json_array(), *files = json_array(), *models = json_array();
    for (int i = 0; i < o->n_models; i++)
        json_array_append_new(models, model_json(&o->model[i]));
    for (int i = 0; i < o->compile->n_files; i++)
        json_array_append_new(files, json_string(o->compile->files[i]));
    for (int i = 0; i < mo_search_count(search); i++)
        json_array_append_new(layers, layer_json(mo_search_result(search, i)));
    struct mo_compile_totals t = mo_compile_totals(search);
    json_t *all = json_pack(
        "{s{so ss ss sf} so so so sO s{si si si si si si sf sf sf}}", "experiment", "files", files, "store",
        o->store, "isa", mo_isa_name(o->compile->search.isa), "seconds", o->seconds, "layers", layers,
        "models", models, "left_out", mo_left_json(search), "withdrawn", o->withdrawn, "totals", "layers",
        t.layers, "compiled", t.compiled, "reused", t.reused, "generic", t.generic, "failed", t.failed,
        "pending", t.pending, "min_ms", t.min_ms, "generic_ms", t.generic_ms, "speedup", t.speedup);
    if (all && o->others.seconds > 0) {
        json_object_set_new(all, "others_cores", json_real(mo_others_cores(&o->others)));
        json_object_set_new(all, "busy", json_boolean(mo_others_busy(&o->others)));
    }
    if (all && o->err->code) mo_failure_put(all, o->err);
    int rc = mo_print_json(all, err);
    json_decref(all);
    return rc;
}
