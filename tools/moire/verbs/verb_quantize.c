/* SPDX-License-Identifier: Apache-2.0
 * verb_quantize.c - `moire quantize`: from a model of floats to one of 8-bit numbers. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/output.h"
#include "tools/moire/command_line/failure.h"
#include "tools/moire/paths.h"
#include "tools/moire/quantize/quantize_show.h"
#include "tools/moire/quantize/sample_files.h"
#include "tools/moire/verb.h"

static const char about[] = "Writes a model whose convolutions and products compute with 8-bit numbers, in "
                            "the QDQ form that ONNX Runtime and "
                            "OpenVINO run, too.  Ranges come from samples; each layer is tried alone, and "
                            "layers that would cost more accuracy "
                            "than --tolerance stay float32.\n";

static const char notes[] =
    "Interrupted, it keeps what it has found beside the output (OUT.onnx.part); the same command goes on "
    "from there.\n"
    "\n"
    "Samples are folders of .npy or .pb files (one file an input), or for models with one input .npy files "
    "and binary "
    "PPM images.  Without --data inputs are drawn, which serves to see how fast a model will be.\n"
    "\n"
    "Examples:\n"
    "  moire quantize resnet50.onnx -o resnet50-int8.onnx --data images --report resnet50.html\n"
    "  moire quantize rec.onnx -o rec-int8.onnx --data lines --method entropy --keep Conv_0,MatMul_12\n";

/* The one thing a signal handler may touch. */
static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

struct progress {
    const struct mo_env *env;
    bool terminal, quiet;
    int64_t said;
    const char *stage;
};

static bool tell(void *ctx, const char *stage, int done, int total) {
    static const int64_t often = 100000000, seldom = INT64_C(10000000000);
    struct progress *p = ctx;
    const int64_t now = mo_now(p->env);
    const bool due = now - p->said > (p->terminal ? often : seldom);
    if (!p->quiet && (due || (p->stage && p->stage != stage))) {
        fprintf(stderr, p->terminal ? "\r\033[K%s: %d of %d" : "%s: %d of %d\n", stage, done, total);
        p->said = now;
    }
    p->stage = stage;
    return !stop_requested;
}

/* "0.485,0.456,0.406", or one number for all three. */
static void colours(const struct mo_numbers *given, const double initial[3], double out[3]) {
    for (int c = 0; c < 3; c++)
        out[c] = given->n == 3 ? given->value[c] : given->n == 1 ? given->value[0] : initial[c];
}

static int write_model(const struct mo_env *env, struct mo_quantization *q, const char *path,
                       moire_error *err) {
    uint8_t *bytes;
    size_t n;
    int rc = mo_edit_pack(&q->edit, &bytes, &n);
    if (!rc) rc = mo_output_write(env, path, bytes, n, err);
    mo_free(env, bytes);
    return rc;
}

static int show(const struct mo_quantize_shown *s, moire_error *err) {
    int rc = s->o->report ? mo_quantize_show_page(s, s->o->report, err) : MOIRE_OK;
    if (!rc && s->o->json) return mo_quantize_show_json(s, err);
    if (!rc) mo_quantize_show_text(s);
    return rc;
}

static int quantize(const struct mo_env *env, const struct mo_options *o, const char *model,
                    const struct mo_sample_set *set, moire_error *err) {
    struct progress progress = {
        .env = env, .terminal = isatty(STDERR_FILENO), .quiet = o->quiet, .said = mo_now(env)};
    char state[MO_OUTPUT_PATH];
    snprintf(state, sizeof state, "%.4000s.part", o->output);
    const struct mo_quantize_options options = {.method = mo_range_method_of(o->method),
                                                .per_channel = !o->per_tensor,
                                                .narrow = o->reduce_range,
                                                .portable = o->portable,
                                                .equalize = o->equalize,
                                                .correct_bias = !o->no_bias_correction,
                                                .by_norms = set->drawn,
                                                .keep = o->keep,
                                                .tolerance = o->tolerance,
                                                .state = mo_output_replaces(env, o->output) ? state : NULL,
                                                .progress = {tell, &progress}};
    struct mo_quantization q;
    int rc = mo_quantize(env, model, &set->samples, &options, &q, err);
    if (progress.terminal && !progress.quiet) fputs("\r\033[K", stderr);
    if (!rc) rc = write_model(env, &q, o->output, err);
    if (!rc && options.state) unlink(state);
    const struct mo_quantize_shown shown = {.env = env,
                                            .o = o,
                                            .model = model,
                                            .q = &q,
                                            .n_samples = set->samples.n,
                                            .drawn = set->drawn,
                                            .method = options.method};
    if (!rc) rc = show(&shown, err);
    mo_quantized_close(&q);
    return rc;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    static const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct mo_sample_set set = {0};
    moire_error err = {0};
    char path[MO_PATH_CAP];
    const char *model;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int rc = mo_path_model(env, o->operands.word[0], path, sizeof path, &model, &err);
    struct mo_sample_options from = {.model = model,
                                     .folder = o->data,
                                     .shapes = o->shapes.shape,
                                     .n_shapes = o->shapes.n,
                                     .most = o->samples,
                                     .seed = o->seed};
    colours(&o->image_mean, mean, from.mean);
    colours(&o->image_deviation, deviation, from.deviation);
    if (!rc && o->per_tensor && o->per_channel)
        rc = mo_fail(&err, MOIRE_EINVAL, "--per-channel and --per-tensor exclude each other");
    if (!rc) rc = mo_samples_open(env, &from, &set, &err);
    if (!rc) rc = quantize(env, o, model, &set, &err);
    mo_samples_close(&set);
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_quantize = {
    .name = "quantize",
    .summary = "make an int8 model of a model of floats",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_QUANTIZE, .operands = "FILE.onnx|NAME"}},
    .run = run,
};
