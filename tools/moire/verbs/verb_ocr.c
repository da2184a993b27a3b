/* SPDX-License-Identifier: Apache-2.0
 * verb_ocr.c - `moire ocr`: reads the text in an image with three networks served by one runtime.
 *
 * Each network is a tenant, loaded for the shape at hand; when the next input has another shape (the
 * recogniser's width follows the lines) the tenant is exchanged.  Weights come from files, not from here. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "models/ocr.h"
#include "tools/moire/ocr_repository.h"
#include "tools/moire/paths.h"
#include "tools/moire/verify/npy.h"
#include "tools/moire/verb.h"

static const char about[] =
    "Reads the lines of text in an image: finds them (det), turns those upside down (cls), reads them "
    "(rec).\n"
    "The three networks are those of the Python package rapidocr_onnxruntime (PP-OCRv4).\n";

static const char notes[] =
    "Examples:\n"
    "  moire ocr page.ppm --det det.onnx --cls cls.onnx --rec rec.onnx\n"
    "  moire ocr page.ppm --det det.onnx --cls cls.onnx --rec rec.onnx --dump out --json\n";

enum { STAGES = 3 };
static const char *const stage_name[STAGES] = {"det", "cls", "rec"};

struct session {
    const struct mo_env *env;
    const struct mo_options *options;
    const char *model[STAGES];
    moire_runtime *runtime;
    moire_tenant *tenant[STAGES];
    int64_t shape[STAGES][4]; /* what the tenant is loaded for */
    void *answer[STAGES];     /* memory of the last output */
    int calls;
    int64_t run_ns;
    int layers[STAGES], compiled[STAGES]; /* over all calls; compiled: by kernels of the store */
};

/* Loads stage's network for the shape of `in`, unless it is loaded for that shape already. */
static int ready(struct session *s, int stage, const moire_tensor *in, moire_error *err) {
    if (s->tenant[stage] && !memcmp(s->shape[stage], in->shape, sizeof s->shape[stage])) return MOIRE_OK;
    if (s->tenant[stage]) {
        int code = moire_unload(s->tenant[stage], err);
        s->tenant[stage] = NULL;
        if (code) return code;
    }
    moire_shape shape = {.rank = in->rank};
    memcpy(shape.shape, in->shape, sizeof shape.shape);
    shape.input = "x";
    moire_tenant_config config;
    moire_tenant_config_init(&config);
    config.name = stage_name[stage];
    config.shapes = &shape;
    config.n_shapes = 1;
    int code = moire_load(s->runtime, s->model[stage], &config, &s->tenant[stage], err);
    if (!code) memcpy(s->shape[stage], in->shape, sizeof s->shape[stage]);
    return code;
}

/* Memory for the only output of a stage, by its declared shape. */
static int make_answer(struct session *s, int stage, moire_tensor *out, moire_error *err) {
    moire_port port;
    if (moire_n_inputs(s->tenant[stage]) != 1 || moire_n_outputs(s->tenant[stage]) != 1)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: a network with one input and one output is needed",
                       s->model[stage]);
    int code = moire_output(s->tenant[stage], 0, &port);
    if (code) return mo_fail(err, code, "%s: %s", s->model[stage], moire_code_text(code));
    size_t count = 1;
    for (int i = 0; i < port.rank; i++)
        if (__builtin_mul_overflow(count, (size_t)port.shape[i], &count)) count = SIZE_MAX / 8;
    if (port.rank < 0 || port.dtype != MOIRE_F32 || count > ((size_t)1 << 32))
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: the output's shape is not known after loading",
                       s->model[stage]);
    mo_free(s->env, s->answer[stage]);
    s->answer[stage] = mo_alloc(s->env, count * sizeof(float));
    if (!s->answer[stage]) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    *out = (moire_tensor){.dtype = MOIRE_F32, .rank = port.rank, .data = s->answer[stage]};
    memcpy(out->shape, port.shape, sizeof out->shape);
    out->bytes = count * sizeof(float);
    return MOIRE_OK;
}

static int dump(const struct session *s, int stage, const char *what, const moire_tensor *t,
                moire_error *err) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%03d_%s_%s.npy", s->options->dump, s->calls, stage_name[stage],
                 what) >= (int)sizeof path)
        return mo_fail(err, MOIRE_EINVAL, "%s: path too long", s->options->dump);
    return mo_npy_write(s->env, path, t, err);
}

static int count_layers(struct session *s, int stage, moire_error *err) {
    moire_tenant_stats stats = {.size = sizeof stats};
    int code = moire_tenant_get_stats(s->tenant[stage], &stats, err);
    if (code) return code;
    s->layers[stage] += stats.layers;
    s->compiled[stage] += stats.compiled_layers;
    return MOIRE_OK;
}

static int call(void *self, enum mo_ocr_stage stage, const moire_tensor *in, moire_tensor *out,
                moire_error *err) {
    struct session *s = self;
    int code = ready(s, (int)stage, in, err);
    if (!code) code = count_layers(s, (int)stage, err);
    if (!code) code = make_answer(s, (int)stage, out, err);
    int64_t start = mo_now(s->env);
    if (!code) code = moire_run(s->tenant[stage], in, 1, out, 1, err);
    s->run_ns += mo_now(s->env) - start;
    if (!code && s->options->dump) {
        code = dump(s, (int)stage, "in", in, err);
        if (!code) code = dump(s, (int)stage, "out", out, err);
    }
    s->calls++;
    return code;
}

/* The recogniser carries its characters in its metadata. */
static int dictionary(const struct mo_env *env, struct mo_region *region, const char *path,
                      struct mo_ocr_dictionary *out, moire_error *err) {
    const char *characters;
    const int code = mo_ocr_characters(env, region, path, &characters, err);
    if (code) return code;
    return mo_ocr_dictionary(region, characters, out) ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
                                                      : MOIRE_OK;
}

static void print_page(const struct mo_ocr_page *page) {
    for (int i = 0; i < page->n; i++) {
        const struct mo_ocr_line *l = &page->lines[i];
        printf("%-48s %.3f  at %.0f,%.0f%s\n", l->text, l->score, l->box.p[0].x, l->box.p[0].y,
               l->flipped ? ", upside down" : "");
    }
}

static int print_json(const struct mo_ocr_page *page, const struct session *s, moire_error *err) {
    json_t *lines = json_array();
    for (int i = 0; i < page->n; i++) {
        const struct mo_ocr_line *l = &page->lines[i];
        json_t *box = json_array();
        for (int k = 0; k < 4; k++)
            json_array_append_new(box, json_pack("[f,f]", l->box.p[k].x, l->box.p[k].y));
        json_array_append_new(lines, json_pack("{s:s, s:f, s:b, s:o}", "text", l->text, "score", l->score,
                                               "flipped", l->flipped, "box", box));
    }
    json_t *networks = json_object();
    for (int i = 0; i < STAGES; i++)
        json_object_set_new(
            networks, stage_name[i],
            json_pack("{s:i, s:i}", "layers", s->layers[i], "compiled_layers", s->compiled[i]));
    json_t *all =
        json_pack("{s:s, s:i, s:f, s:o, s:o}", "image", s->options->operands.word[0], "calls", s->calls,
                  "run_ms", (double)s->run_ns / 1e6, "networks", networks, "lines", lines);
    int rc = mo_print_json(all, err);
    json_decref(all);
    return rc;
}

static int read_page(struct session *s, struct mo_region *region, moire_error *err) {
    struct mo_image image;
    struct mo_ocr_dictionary words;
    struct mo_ocr_page page;
    struct mo_ocr_runner runner = {s, call};
    int code = mo_image_read(s->env, region, s->options->operands.word[0], &image, err);
    if (!code) code = dictionary(s->env, region, s->model[MO_OCR_RECOGNISE], &words, err);
    if (!code) code = mo_ocr_read(region, &image, &words, &runner, &page, err);
    if (!code && s->options->json) return print_json(&page, s, err);
    if (!code) print_page(&page);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct session s = {.env = env, .options = o, .model = {o->detector, o->classifier, o->recogniser}};
    moire_error err;
    moire_config config;
    moire_config_init(&config);
    config.threads = o->threads;
    config.store = o->store;
    config.generic_only = o->generic;
    if (o->dump && mo_path_make_folder(env, o->dump, &err)) return mo_verb_fail(o, &err);
    if (moire_runtime_create(&config, &s.runtime, &err)) return mo_verb_fail(o, &err);
    struct mo_region *region = mo_region_create(env);
    int rc = region ? read_page(&s, region, &err) : mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < STAGES; i++) {
        if (s.tenant[i]) moire_unload(s.tenant[i], NULL);
        mo_free(env, s.answer[i]);
    }
    moire_runtime_destroy(s.runtime, 1);
    mo_region_destroy(region);
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_ocr = {
    .name = "ocr",
    .summary = "read the text in an image",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_OCR, .operands = "IMAGE.ppm"}},
    .run = run,
};
