/* SPDX-License-Identifier: Apache-2.0
 * dataset.c - reads test data (.pb, .npy) of a model and compares tensors. */
#include "tools/moire/verify/dataset.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/import/import.h"
#include "runtime/ops/util.h"
#include "tools/moire/verify/bundle_file.h"
#include "tools/moire/verify/npy.h"

static bool is_initializer(const Onnx__GraphProto *graph, const char *name) {
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && !strcmp(graph->initializer[i]->name, name)) return true;
    return false;
}

/* What the model says about a port: dtype goes to out->dtype, sizes (-1 = open) to out->shape; the kind of a
 * bundle to out->bytes. */
static void read_declared(const Onnx__ValueInfoProto *info, moire_tensor *out) {
    const Onnx__TypeProto *type = info->type;
    out->rank = -1;
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
        *out = (moire_tensor){.dtype = MO_BUNDLE, .rank = -1, .bytes = MO_SEQUENCE};
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE)
        *out = (moire_tensor){.dtype = MO_BUNDLE, .rank = -1, .bytes = MO_OPTIONAL};
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type) return;
    out->dtype = (moire_dtype)type->tensor_type->elem_type;
    const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
    if (!shape || shape->n_dim > MOIRE_MAX_RANK) return;
    out->rank = (int)shape->n_dim;
    for (int i = 0; i < out->rank; i++) {
        bool fixed = shape->dim[i]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        out->shape[i] = fixed ? shape->dim[i]->dim_value : -1;
    }
}

static int add_port(struct mo_dataset *data, const Onnx__ValueInfoProto *info, const char **list,
                    moire_tensor *ports, int *n, moire_error *err) {
    const char *name = info->name ? info->name : "";
    if (*n >= MO_DATASET_PORTS)
        return mo_fail(err, MOIRE_ELIMIT, "the model has more than %d inputs or outputs", MO_DATASET_PORTS);
    read_declared(info, &ports[*n]);
    list[*n] = mo_region_string(data->store->region, name, strlen(name));
    return list[(*n)++] ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static int read_ports(struct mo_dataset *data, const Onnx__GraphProto *graph, moire_error *err) {
    int rc = MOIRE_OK;
    for (size_t i = 0; !rc && i < graph->n_input; i++) {
        const char *name = graph->input[i]->name;
        if (name && !is_initializer(graph, name))
            rc = add_port(data, graph->input[i], data->in_name, data->in, &data->n_in, err);
    }
    for (size_t i = 0; !rc && i < graph->n_output; i++)
        rc = add_port(data, graph->output[i], data->out_name, data->out, &data->n_out, err);
    return rc;
}

static int read_names(struct mo_dataset *data, const char *model, moire_error *err) {
    uint8_t *bytes;
    size_t n;
    int rc = mo_read_file(data->env, model, &bytes, &n, err);
    if (rc) return rc;
    rc = mo_wire_check(&data->env->limits, &onnx__model_proto__descriptor, bytes, n, err);
    Onnx__ModelProto *proto = rc ? NULL : onnx__model_proto__unpack(NULL, n, bytes);
    mo_free(data->env, bytes);
    if (rc) return rc;
    rc = proto && proto->graph ? read_ports(data, proto->graph, err)
                               : mo_fail(err, MOIRE_EFORMAT, "'%s' is not an ONNX model", model);
    if (proto) onnx__model_proto__free_unpacked(proto, NULL);
    return rc;
}

static bool exists(const struct mo_env *env, const char *path) {
    int fd = env->sys->open(env->sys->self, path, O_RDONLY, 0);
    if (fd >= 0) env->sys->close(env->sys->self, fd);
    return fd >= 0;
}

static int copy_value(struct mo_dataset *data, const struct mo_value *v, moire_tensor *out,
                      moire_error *err) {
    *out = (moire_tensor){.dtype = v->dtype, .rank = v->shape.rank};
    out->bytes = (size_t)mo_shape_count(&v->shape) * mo_dtype_bytes(v->dtype);
    memcpy(out->shape, v->shape.d, sizeof out->shape);
    out->data = mo_region_alloc(data->store->region, out->bytes + 1);
    if (!out->data) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (out->bytes) memcpy(out->data, v->data, out->bytes);
    return MOIRE_OK;
}

static int read_bundle(struct mo_dataset *data, const char *path, enum mo_bundle_kind kind,
                       const uint8_t *bytes, size_t n, moire_tensor *out, moire_error *err) {
    const struct mo_import im = {.env = data->env, .graph = data->store, .err = err};
    struct mo_value value = {0};
    int rc = mo_bundle_read(&im, kind, bytes, n, path, &value);
    if (!rc) rc = copy_value(data, &value, out, err);
    mo_free(data->env, value.data);
    return rc;
}

/* A serialized TensorProto, or the message of a bundle. */
static int read_pb(struct mo_dataset *data, const char *path, const moire_tensor *declared, moire_tensor *out,
                   moire_error *err) {
    uint8_t *bytes;
    size_t n;
    int rc = mo_read_file(data->env, path, &bytes, &n, err);
    if (rc) return rc;
    if (declared->dtype == MO_BUNDLE) {
        rc = read_bundle(data, path, (enum mo_bundle_kind)declared->bytes, bytes, n, out, err);
        mo_free(data->env, bytes);
        return rc;
    }
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, n, bytes);
    if (!proto || !proto->data_type)
        rc = mo_fail(err, MOIRE_EUNSUPPORTED, "'%s' holds no dense tensor", path);
    struct mo_import im = {.env = data->env, .graph = data->store, .err = err};
    struct mo_value value = {0};
    if (!rc) rc = mo_read_tensor(&im, proto, path, &value);
    if (!rc && value.dtype == MOIRE_STRING) rc = mo_fail(err, MOIRE_EUNSUPPORTED, "'%s' holds strings", path);
    if (!rc) rc = copy_value(data, &value, out, err);
    if (proto) onnx__tensor_proto__free_unpacked(proto, NULL);
    mo_free(data->env, bytes);
    return rc;
}

static int read_npy(struct mo_dataset *data, const char *path, moire_tensor *out, moire_error *err) {
    moire_tensor read = {0};
    int rc = mo_npy_read(data->env, path, &read, err);
    if (rc) return rc;
    struct mo_value v = {.dtype = read.dtype, .shape = {.rank = read.rank}, .data = read.data};
    memcpy(v.shape.d, read.shape, sizeof v.shape.d);
    rc = copy_value(data, &v, out, err);
    mo_free(data->env, read.data);
    return rc;
}

static bool fits(const moire_tensor *declared, const moire_tensor *read) {
    if (declared->rank < 0) return true;
    if (declared->rank != read->rank) return false;
    for (int i = 0; i < read->rank; i++)
        if (declared->shape[i] >= 0 && declared->shape[i] != read->shape[i]) return false;
    return true;
}

/* Replaces the declaration in *port by the tensor of its file, or by nothing. */
static int read_port(struct mo_dataset *data, const char *folder, const char *kind, int index,
                     const char *name, moire_tensor *port, moire_error *err) {
    char path[1024];
    moire_tensor declared = *port;
    int rc = MOIRE_OK;
    *port = (moire_tensor){.dtype = MOIRE_NONE};
    snprintf(path, sizeof path, "%s/%s_%d.pb", folder, kind, index);
    if (exists(data->env, path)) {
        rc = read_pb(data, path, &declared, port, err);
    } else {
        snprintf(path, sizeof path, "%s/%s.npy", folder, name);
        if (!strchr(name, '/') && exists(data->env, path)) rc = read_npy(data, path, port, err);
    }
    if (rc || port->dtype == MOIRE_NONE) return rc;
    if (port->dtype == MOIRE_U16 && declared.dtype == MOIRE_BF16) port->dtype = MOIRE_BF16;
    if (*kind == 'i' && !fits(&declared, port)) data->contradicts = index + 1;
    return MOIRE_OK;
}

int mo_dataset_open(const struct mo_env *env, const char *model, const char *folder, struct mo_dataset *data,
                    moire_error *err) {
    *data = (struct mo_dataset){.env = env, .store = mo_graph_create(env)};
    if (!data->store) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int rc = read_names(data, model, err);
    for (int i = 0; !rc && i < data->n_in; i++) {
        rc = read_port(data, folder, "input", i, data->in_name[i], &data->in[i], err);
        data->shape[i] = (moire_shape){.input = data->in_name[i], .rank = data->in[i].rank};
        memcpy(data->shape[i].shape, data->in[i].shape, sizeof data->shape[i].shape);
    }
    for (int i = 0; !rc && i < data->n_out; i++)
        rc = read_port(data, folder, "output", i, data->out_name[i], &data->out[i], err);
    return rc;
}

void mo_dataset_close(struct mo_dataset *data) {
    mo_graph_destroy(data->store);
    data->store = NULL;
}

/* --- comparison --- */
static struct mo_value view(const moire_tensor *t) {
    struct mo_value v = {.dtype = t->dtype, .shape = {.rank = t->rank}, .data = t->data};
    memcpy(v.shape.d, t->shape, sizeof v.shape.d);
    return v;
}

static bool close_enough(double want, double got, double rtol, double atol) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    return fabs(got - want) <= atol + rtol * fabs(want);
}

static double range_of(const struct mo_value *v, int64_t n) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double x = mo_load(v, i);
        if (!isfinite(x)) continue;
        low = fmin(low, x);
        high = fmax(high, x);
    }
    return high > low ? high - low : high != 0 && isfinite(high) ? fabs(high) : 1;
}

static moire_tensor tensor_of(const struct mo_value *v) {
    moire_tensor t = {.dtype = v->dtype, .rank = v->shape.rank, .data = v->data};
    memcpy(t.shape, v->shape.d, sizeof t.shape);
    return t;
}

/* Element by element, to the first that differs. */
static bool bundles_agree(const struct mo_value *a, const struct mo_value *b, double rtol, double atol,
                          struct mo_difference *d) {
    const enum mo_bundle_kind kind = mo_bundle_count(a, MO_SEQUENCE) < 0 ? MO_OPTIONAL : MO_SEQUENCE;
    const int64_t n = mo_bundle_count(a, kind);
    if (n < 0 || n != mo_bundle_count(b, kind)) d->shape = "the kinds or the numbers of elements differ";
    for (int64_t i = 0; i < n && !d->shape; i++) {
        const struct mo_value x = mo_bundle_at(a, i), y = mo_bundle_at(b, i);
        const moire_tensor want = tensor_of(&x), got = tensor_of(&y);
        if (!mo_tensors_agree(&want, &got, rtol, atol, d)) return false;
    }
    return !d->shape;
}

bool mo_tensors_agree(const moire_tensor *want, const moire_tensor *got, double rtol, double atol,
                      struct mo_difference *d) {
    struct mo_value a = view(want), b = view(got);
    *d = (struct mo_difference){.first_bad = -1, .finite = true};
    if (a.dtype != b.dtype) d->shape = "the types differ";
    if (!d->shape && a.dtype == MO_BUNDLE) return bundles_agree(&a, &b, rtol, atol, d);
    if (!mo_shape_equal(&a.shape, &b.shape)) d->shape = "the shapes differ";
    if (d->shape) return false;
    int64_t n = mo_shape_count(&a.shape);
    bool floats = mo_type_in(a.dtype, MO_FLOATS);
    double range = floats ? range_of(&a, n) : 1;
    for (int64_t i = 0; i < n; i++) {
        double w = mo_load(&a, i), g = mo_load(&b, i);
        bool good = floats ? close_enough(w, g, rtol, atol) : mo_load_int(&a, i) == mo_load_int(&b, i);
        if (isfinite(w) && isfinite(g)) d->max_abs = fmax(d->max_abs, fabs(w - g));
        if (good) continue;
        if (!isfinite(w) || !isfinite(g)) d->finite = false;
        if (!d->n_bad++) d->first_bad = i, d->got = g, d->want = w;
    }
    d->max_rel = d->max_abs / range;
    return d->n_bad == 0;
}
