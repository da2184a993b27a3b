/* SPDX-License-Identifier: Apache-2.0
 * sample_files.c - see sample_files.h. */
#define _GNU_SOURCE
#include "tools/moire/quantize/sample_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "models/ocr.h"
#include "runtime/base/numbers.h"
#include "tools/moire/verify/dataset.h"
#include "tools/moire/verify/npy.h"

enum { DRAWN = 8, PATH = 4096 };

struct work {
    const struct mo_env *env;
    const struct mo_sample_options *o;
    struct mo_sample_set *set;
    moire_error *err;
};

static int no_memory(struct work *w) {
    return mo_fail(w->err, MOIRE_ENOMEM, "out of memory for samples");
}

/* Room for one more sample; NULL = out of memory. */
static moire_tensor *add(struct work *w) {
    struct mo_sample_set *s = w->set;
    if (s->samples.n == s->room) {
        int room = s->room ? 2 * s->room : 64;
        struct mo_model_sample *at = mo_region_array(s->region, (size_t)room, sizeof *at);
        if (!at) return NULL;
        if (s->samples.n) memcpy(at, s->samples.at, (size_t)s->samples.n * sizeof *at);
        s->samples.at = at;
        s->room = room;
    }
    moire_tensor *in = mo_region_array(s->region, (size_t)s->samples.n_in + 1, sizeof *in);
    if (in) s->samples.at[s->samples.n++].in = in;
    return in;
}

static const struct mo_tensor *input(const struct work *w, int i) {
    return w->set->model->tensors[w->set->model->inputs[i]];
}

static size_t bytes_of(const moire_tensor *t) {
    size_t n = mo_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* A copy in the set's memory. */
static int keep(struct work *w, const moire_tensor *from, moire_tensor *to) {
    *to = *from;
    to->bytes = bytes_of(from);
    to->data = mo_region_alloc(w->set->region, to->bytes + 1);
    if (!to->data) return no_memory(w);
    if (to->bytes) memcpy(to->data, from->data, to->bytes);
    return MOIRE_OK;
}

/* --- a folder a sample --- */

static int add_folder(struct work *w, const char *folder) {
    struct mo_dataset data;
    int rc = mo_dataset_open(w->env, w->o->model, folder, &data, w->err);
    moire_tensor *in = rc ? NULL : add(w);
    if (!rc && !in) rc = no_memory(w);
    for (int i = 0; !rc && i < data.n_in && i < w->set->samples.n_in; i++) {
        if (data.in[i].dtype == MOIRE_NONE)
            rc = mo_fail(w->err, MOIRE_EIO, "'%.300s' has no file for input %d: %.100s.npy or input_%d.pb",
                         folder, i, data.in_name[i], i);
        else
            rc = keep(w, &data.in[i], &in[i]);
    }
    mo_dataset_close(&data);
    return rc;
}

/* --- a file a sample --- */

/* Items of an array whose first dimension the model wants to be 1. */
static int add_array(struct work *w, const moire_tensor *t, const char *path) {
    const struct mo_tensor *want = input(w, 0);
    moire_tensor item = *t;
    char shape[80];
    if (t->rank == want->shape.rank - 1) { /* without the first dimension */
        memmove(item.shape + 1, item.shape, (size_t)t->rank * sizeof *item.shape);
        item.shape[0] = 1;
        item.rank++;
    }
    bool fits = item.rank == want->shape.rank && item.dtype == want->dtype;
    for (int i = 1; fits && i < item.rank; i++)
        fits = want->shape.d[i] < 0 || want->shape.d[i] == item.shape[i];
    if (!fits)
        return mo_fail(w->err, MOIRE_ESHAPE, "'%.300s' does not fit input '%.100s' of %s%s", path, want->name,
                       mo_dtype_name(want->dtype), mo_shape_text(&want->shape, shape, sizeof shape));
    const int64_t n = want->shape.d[0] == 1 || want->shape.d[0] < 0 ? item.shape[0] : 1;
    const size_t whole = bytes_of(&item);
    if (n > 1) item.shape[0] = 1;
    for (int64_t i = 0; i < n && w->set->samples.n < w->o->most; i++) {
        moire_tensor one = item, *in = add(w);
        one.data = (char *)t->data + (size_t)i * (whole / (size_t)n);
        if (!in) return no_memory(w);
        int rc = keep(w, &one, in);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

static int add_npy(struct work *w, const char *path) {
    moire_tensor t = {0};
    int rc = mo_npy_read(w->env, path, &t, w->err);
    if (rc) return rc;
    rc = add_array(w, &t, path);
    mo_free(w->env, t.data);
    return rc;
}

/* [1, 3, height, width], of the size that the model asks for, else of the image's. */
static int add_image(struct work *w, const char *path) {
    const struct mo_tensor *want = input(w, 0);
    struct mo_region *tmp = mo_region_create(w->env);
    struct mo_image read, image;
    if (!tmp) return no_memory(w);
    int rc = mo_image_read(w->env, tmp, path, &read, w->err);
    if (!rc && (want->shape.rank != 4 || (want->shape.d[1] >= 0 && want->shape.d[1] != 3) ||
                want->dtype != MOIRE_F32))
        rc =
            mo_fail(w->err, MOIRE_ESHAPE,
                    "'%.300s': input '%.100s' takes no image: it is not float32 [N,3,H,W]", path, want->name);
    if (!rc) {
        int height = want->shape.d[2] > 0 ? (int)want->shape.d[2] : read.h;
        int width = want->shape.d[3] > 0 ? (int)want->shape.d[3] : read.w;
        moire_tensor t = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 3, height, width}};
        const size_t area = (size_t)height * (size_t)width;
        float *out = t.data = mo_region_array(tmp, 3 * area, sizeof(float));
        if (!out || mo_image_resize(tmp, &read, width, height, &image)) rc = no_memory(w);
        for (size_t c = 0; !rc && c < 3; c++)
            for (size_t p = 0; p < area; p++)
                out[c * area + p] =
                    (float)((image.px[3 * p + c] / 255.0 - w->o->mean[c]) / w->o->deviation[c]);
        if (!rc) rc = add_array(w, &t, path);
    }
    mo_region_destroy(tmp);
    return rc;
}

/* --- the folder --- */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

static bool is_folder(const char *path) {
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

static int add_entry(struct work *w, const char *name, bool folders) {
    char path[PATH];
    if (name[0] == '.' || w->set->samples.n >= w->o->most) return MOIRE_OK;
    snprintf(path, sizeof path, "%s/%s", w->o->folder, name);
    if (is_folder(path)) return folders ? add_folder(w, path) : MOIRE_OK;
    if (folders) return MOIRE_OK;
    if (ends_with(name, ".npy")) return add_npy(w, path);
    return ends_with(name, ".ppm") ? add_image(w, path) : MOIRE_OK;
}

static bool has_file(const struct work *w, const char *name) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", w->o->folder, name);
    struct stat s;
    return !stat(path, &s);
}

static int read_folder(struct work *w) {
    struct dirent **entry = NULL;
    char first[300];
    bool folders = false;
    snprintf(first, sizeof first, "%.290s.npy", input(w, 0)->name);
    if (has_file(w, "input_0.pb") || has_file(w, first)) return add_folder(w, w->o->folder);
    int rc = MOIRE_OK, n = scandir(w->o->folder, &entry, NULL, alphasort);
    if (n < 0) return mo_fail(w->err, MOIRE_EIO, "--data: cannot read the folder '%.300s'", w->o->folder);
    for (int i = 0; i < n; i++) {
        char path[PATH];
        snprintf(path, sizeof path, "%s/%s", w->o->folder, entry[i]->d_name);
        folders = folders || (entry[i]->d_name[0] != '.' && is_folder(path));
    }
    if (!folders && w->set->samples.n_in != 1)
        rc = mo_fail(
            w->err, MOIRE_EINVAL,
            "--data: the model has %d inputs: '%.300s' needs a folder for each sample, with a file for each "
            "input",
            w->set->samples.n_in, w->o->folder);
    for (int i = 0; i < n; i++) {
        if (!rc) rc = add_entry(w, entry[i]->d_name, folders);
        free(entry[i]);
    }
    free(entry);
    if (!rc && !w->set->samples.n)
        rc =
            mo_fail(w->err, MOIRE_EIO, "--data: no .npy, .ppm or folders of these in '%.300s'", w->o->folder);
    return rc;
}

/* --- drawn numbers --- */

/* How many rows the table has that a tensor of numbers chooses from; 0: it is no such tensor. */
static int64_t table_rows(const struct mo_graph *g, int tensor) {
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        const struct mo_tensor *table = mo_node_in(g, node, 0);
        if (strcmp(node->op_type, "Gather") || node->n_in < 2 || node->in[1] != tensor || !table ||
            !table->data)
            continue;
        const int64_t axis = mo_attr_int(node, "axis", 0);
        return axis >= 0 && axis < table->shape.rank ? table->shape.d[axis] : 0;
    }
    return 0;
}

static void put(moire_tensor *t, int64_t i, int64_t value) {
    switch (mo_dtype_bytes(t->dtype)) {
    case 8:
        ((int64_t *)t->data)[i] = value;
        break;
    case 4:
        ((int32_t *)t->data)[i] = (int32_t)value;
        break;
    default:
        ((uint8_t *)t->data)[i] = (uint8_t)value;
    }
}

static void fill(moire_tensor *t, int64_t rows, uint64_t *state) {
    const int64_t n = (int64_t)(bytes_of(t) / mo_dtype_bytes(t->dtype));
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = mo_splitmix(state);
        /* the sum of four 16-bit uniforms is close to normal */
        int sum = (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
        if (t->dtype == MOIRE_F32)
            ((float *)t->data)[i] = (float)(sum - 131070) / 37837.227f;
        else
            put(t, i, rows > 0 ? (int64_t)(r % (uint64_t)rows) : 1);
    }
}

static int draw(struct work *w) {
    const struct mo_frontend_options front = {
        .shapes = w->o->shapes, .n_shapes = w->o->n_shapes, .no_passes = true};
    struct mo_graph *g;
    uint64_t state = (uint64_t)w->o->seed;
    int rc = mo_frontend_load(w->env, w->o->model, &front, &g, w->err);
    w->set->drawn = true;
    for (int s = 0; !rc && s < DRAWN && s < w->o->most; s++) {
        moire_tensor *in = add(w);
        if (!in) rc = no_memory(w);
        for (int i = 0; !rc && i < g->n_inputs; i++) {
            const struct mo_tensor *t = g->tensors[g->inputs[i]];
            in[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank};
            memcpy(in[i].shape, t->shape.d, sizeof in[i].shape);
            in[i].bytes = bytes_of(&in[i]);
            in[i].data = mo_region_alloc(w->set->region, in[i].bytes + 1);
            if (!in[i].data)
                rc = no_memory(w);
            else
                fill(&in[i], table_rows(g, t->id), &state);
        }
    }
    mo_graph_destroy(g);
    return rc;
}

/* --- all --- */

int mo_samples_open(const struct mo_env *env, const struct mo_sample_options *options,
                    struct mo_sample_set *out, moire_error *err) {
    *out = (struct mo_sample_set){.env = env, .region = mo_region_create(env)};
    struct work w = {.env = env, .o = options, .set = out, .err = err};
    if (!out->region) return no_memory(&w);
    const struct mo_frontend_options front = {.only_import = true};
    int rc = mo_frontend_load(env, options->model, &front, &out->model, err);
    if (rc) return rc;
    const int n = out->model->n_inputs;
    const char **names = mo_region_array(out->region, (size_t)n + 1, sizeof *names);
    if (!names) return no_memory(&w);
    for (int i = 0; i < n; i++)
        names[i] = input(&w, i)->name;
    out->samples.n_in = n;
    out->samples.name = names;
    return options->folder ? read_folder(&w) : draw(&w);
}

void mo_samples_close(struct mo_sample_set *set) {
    mo_graph_destroy(set->model);
    mo_region_destroy(set->region);
    set->model = NULL;
    set->region = NULL;
}
