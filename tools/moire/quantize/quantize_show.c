/* SPDX-License-Identifier: Apache-2.0
 * quantize_show.c - see quantize_show.h. */
#include "tools/moire/quantize/quantize_show.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"
#include "runtime/base/text.h"

enum { LINE = 400, LINES = 5, BAR = 240 };

/* What there is to say, the main thing first; returns the number of lines. */
static int sentences(const struct mo_quantize_shown *s, char (*line)[LINE]) {
    const struct mo_quantization *q = s->q;
    int n = 0;
    struct mo_text t = mo_text_in(line[n++], LINE);
    mo_text_put(
        &t, "%d of %d layers compute with 8-bit numbers; on %d %s outputs differ by %.2g of their size",
        q->n_on, q->layers.n, s->n_samples, s->drawn ? "samples that were drawn" : "samples", q->whole.error);
    mo_text_put(&t, " (cosine %.5f)", q->whole.cosine);
    if (q->whole.n_best)
        mo_text_put(&t, ", and the largest value is in the same place %.1f %% of the time",
                    100 * (double)q->whole.n_same / (double)q->whole.n_best);
    mo_text_put(&t, ".");
    t = mo_text_in(line[n++], LINE);
    mo_text_put(&t, "The model takes %.1f MB in place of %.1f; %d tensors are converted.",
                (double)q->bytes * 1e-6, (double)q->float_bytes * 1e-6, q->n_points);
    if (s->drawn) {
        t = mo_text_in(line[n++], LINE);
        mo_text_put(&t,
                    "No data was given: inputs were drawn (seed %lld)%s.  Give some with --data DIR: "
                    "accuracy will be "
                    "better, and this page will say what it is.",
                    (long long)s->o->seed,
                    q->n_by_norms ? ", and ranges taken from batch normalization where there is any" : "");
    }
    if (q->n_bad) {
        t = mo_text_in(line[n++], LINE);
        mo_text_put(&t, "%lld values were not finite and were left out of the ranges.", (long long)q->n_bad);
    }
    return n;
}

static const char *state_of(const struct mo_qlayer *layer) {
    return layer->on ? "int8" : "fp32";
}

void mo_quantize_show_text(const struct mo_quantize_shown *s) {
    char line[LINES][LINE];
    const struct mo_quantization *q = s->q;
    printf("%-50s %-22s %-6s %10s  %s\n", "layer", "kind", "as", "alone", "why fp32");
    for (int i = 0; i < q->layers.n; i++) {
        const struct mo_qlayer *layer = &q->layers.at[i];
        char error[24] = "-";
        if (layer->error >= 0) snprintf(error, sizeof error, "%.2g", layer->error);
        printf("%-50.50s %-22.22s %-6s %10s  %s\n", q->layer_name[i], q->layer_kind[i], state_of(layer),
               error, layer->why);
    }
    putchar('\n');
    int n = sentences(s, line);
    for (int i = 0; i < n; i++)
        printf("%s\n", line[i]);
    printf("%s\n", s->o->output);
}

int mo_quantize_show_json(const struct mo_quantize_shown *s, moire_error *err) {
    const struct mo_quantization *q = s->q;
    json_t *layers = json_array();
    for (int i = 0; i < q->layers.n; i++) {
        const struct mo_qlayer *layer = &q->layers.at[i];
        json_array_append_new(
            layers,
            json_pack("{s:s, s:s, s:s, s:o, s:s}", "layer", q->layer_name[i], "kind", q->layer_kind[i],
                      "precision", state_of(layer), "error_alone",
                      layer->error >= 0 && isfinite(layer->error) ? json_real(layer->error) : json_null(),
                      "why", layer->why));
    }
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:b, s:i, s:b, s:i, s:i, s:i, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o}",
                  "model", s->model, "output", s->o->output, "method", mo_range_method_name(s->method),
                  "per_channel", !s->o->per_tensor, "samples", s->n_samples, "drawn", (int)s->drawn,
                  "layers_int8", q->n_on, "layers_all", q->layers.n, "tensors_converted", q->n_points,
                  "error", isfinite(q->whole.error) ? q->whole.error : 1e30, "cosine", q->whole.cosine,
                  "places", (json_int_t)q->whole.n_best, "places_same", (json_int_t)q->whole.n_same,
                  "bytes_fp32", (json_int_t)q->float_bytes, "bytes", (json_int_t)q->bytes,
                  "values_not_finite", (json_int_t)q->n_bad, "layers", layers);
    if (!all) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the result");
    json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return MOIRE_OK;
}

/* --- the page --- */

static void cell(FILE *out, const char *text) {
    fputs("<td>", out);
    mo_html_text(out, text);
    fputs("</td>", out);
}

/* A bar on a logarithmic scale from 1e-5 to 1. */
static void bar(FILE *out, double error, bool on) {
    double share = error > 1e-5 ? fmin(1, (log10(error) + 5) / 5) : 0;
    fprintf(out,
            "<td><svg width=\"%d\" height=\"12\" role=\"img\"><rect width=\"%.0f\" height=\"12\" "
            "fill=\"%s\"/></svg></td>",
            BAR, share * BAR, mo_plot_colour(on ? 0 : 1));
}

static void draw(FILE *out, const void *what) {
    const struct mo_quantize_shown *s = what;
    const struct mo_quantization *q = s->q;
    char line[LINES][LINE], title[200];
    struct mo_text t = mo_text_in(title, sizeof title);
    mo_text_put(&t, "%.150s in 8 bits", s->model);
    mo_page_begin(out, title, "");
    int n = sentences(s, line);
    for (int i = 0; i < n; i++)
        mo_page_answer(out, line[i], i == 0);
    fputs("<h2>What each layer costs</h2><p>Error of the model's outputs, relative to their size, when only "
          "this layer "
          "is quantized. Bars are logarithmic, from 0.00001 to "
          "1.</p><table><tr><th>layer</th><th>kind</th><th>as</th>"
          "<th>error alone</th><th></th><th>why fp32</th></tr>\n",
          out);
    for (int i = 0; i < q->layers.n; i++) {
        const struct mo_qlayer *layer = &q->layers.at[i];
        fputs("<tr>", out);
        cell(out, q->layer_name[i]);
        cell(out, q->layer_kind[i]);
        cell(out, state_of(layer));
        if (layer->error >= 0)
            fprintf(out, "<td>%.2g</td>", layer->error);
        else
            fputs("<td>-</td>", out);
        bar(out, layer->error, layer->on);
        cell(out, layer->why);
        fputs("</tr>\n", out);
    }
    fprintf(out, "</table><h2>How</h2><p>Ranges by %s; weights with one scale for each %s; moire %s.</p>\n",
            mo_range_method_name(s->method), s->o->per_tensor ? "tensor" : "output channel",
            MOIRE_VERSION_STRING);
    mo_page_end(out);
}

int mo_quantize_show_page(const struct mo_quantize_shown *s, const char *path, moire_error *err) {
    return mo_page_write(s->env, draw, s, path, err);
}
