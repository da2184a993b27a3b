/* SPDX-License-Identifier: Apache-2.0
 * kserve_request.c - reads infer requests; see kserve.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/kserve.h"
#include "serve/protocol/kserve_values.h"

struct parser {
    struct ms_request *r;
    const char *binary; /* tensors behind the JSON */
    size_t left;
    moire_error *err;
};

/* A member that is not there is NULL; one of another type is an error that names it. */
static int member(const struct parser *p, const json_t *object, const char *key, json_type type,
                  const json_t **out) {
    *out = json_object_get(object, key);
    if (!*out || json_typeof(*out) == type) return MOIRE_OK;
    return ms_fail(p->err, MOIRE_EINVAL, "\"%s\" of the request is of the wrong JSON type", key);
}

static int text_of(const struct parser *p, const json_t *object, const char *key, const char **out) {
    const json_t *v;
    const int rc = member(p, object, key, JSON_STRING, &v);
    *out = v ? json_string_value(v) : NULL;
    return rc;
}

static int whole_of(const struct parser *p, const json_t *object, const char *key, int64_t *out) {
    const json_t *v;
    const int rc = member(p, object, key, JSON_INTEGER, &v);
    if (rc || !v) return rc;
    *out = json_integer_value(v);
    if (*out < 0) return ms_fail(p->err, MOIRE_EINVAL, "\"%s\" of the request is negative", key);
    return MOIRE_OK;
}

/* Where the tensor of an input or an output lies, by its parameters. */
static int read_place(const struct parser *p, const json_t *object, struct ms_place *out) {
    const json_t *parameters;
    int rc = member(p, object, "parameters", JSON_OBJECT, &parameters);
    if (!rc) rc = text_of(p, parameters, "shared_memory_region", &out->region);
    if (!rc) rc = whole_of(p, parameters, "shared_memory_offset", &out->offset);
    if (!rc) rc = whole_of(p, parameters, "shared_memory_byte_size", &out->bytes);
    return rc;
}

static int read_shape(const struct parser *p, const json_t *object, struct ms_input *in) {
    const json_t *shape;
    int rc = member(p, object, "shape", JSON_ARRAY, &shape);
    if (rc) return rc;
    if (!shape || json_array_size(shape) > MOIRE_MAX_RANK)
        return ms_fail(p->err, MOIRE_EINVAL, "input '%.100s' needs a \"shape\" of at most %d dimensions",
                       in->name, MOIRE_MAX_RANK);
    in->tensor.rank = (int)json_array_size(shape);
    for (int i = 0; i < in->tensor.rank; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return ms_fail(p->err, MOIRE_EINVAL,
                           "input '%.100s': dimension %d of its shape is no whole number from 0", in->name,
                           i);
        in->tensor.shape[i] = json_integer_value(d);
    }
    return MOIRE_OK;
}

static int take_binary(struct parser *p, const json_t *size, struct ms_input *in) {
    const int64_t n = json_is_integer(size) ? json_integer_value(size) : -1;
    if (n < 0 || (size_t)n > p->left)
        return ms_fail(p->err, MOIRE_EINVAL,
                       "input '%.100s': \"binary_data_size\" is %" PRId64 ", and %zu bytes are left",
                       in->name, n, p->left);
    if ((size_t)n != in->tensor.bytes)
        return ms_fail(p->err, MOIRE_EINVAL,
                       "input '%.100s': %" PRId64 " bytes were given, its shape and type take %zu", in->name,
                       n, in->tensor.bytes);
    in->tensor.data = (void *)(uintptr_t)p->binary; /* only read from */
    p->binary += n;
    p->left -= (size_t)n;
    return MOIRE_OK;
}

static int read_data(struct parser *p, const json_t *object, struct ms_input *in, int64_t count) {
    const json_t *parameters, *data = json_object_get(object, "data");
    const int rc = member(p, object, "parameters", JSON_OBJECT, &parameters);
    if (rc) return rc;
    if (in->place.region && !data && !json_object_get(parameters, "binary_data_size")) return MOIRE_OK;
    if (in->place.region)
        return ms_fail(p->err, MOIRE_EINVAL,
                       "input '%.100s' has data and shared memory; one of them is right", in->name);
    const json_t *size = json_object_get(parameters, "binary_data_size");
    if (size && data)
        return ms_fail(p->err, MOIRE_EINVAL,
                       "input '%.100s' has \"data\" and binary data; one of them is right", in->name);
    if (size) return take_binary(p, size, in);
    /* A number takes two characters of JSON: a shape that says more cannot be filled, so nothing is
     * allocated. */
    if (!data || !json_is_array(data))
        return ms_fail(p->err, MOIRE_EINVAL, "input '%.100s' has no \"data\"", in->name);
    in->tensor.data = in->owned = malloc(in->tensor.bytes ? in->tensor.bytes : 1);
    if (!in->owned) return ms_fail(p->err, MOIRE_ENOMEM, "no memory for input '%.100s'", in->name);
    return ms_values_read(data, in->name, in->tensor.dtype, count, in->owned, p->err);
}

static int read_input(struct parser *p, const json_t *object, size_t body) {
    struct ms_input *in = &p->r->input[p->r->n_inputs++];
    const char *type;
    int rc = text_of(p, object, "name", &in->name);
    if (!rc) rc = text_of(p, object, "datatype", &type);
    if (rc) return rc;
    if (!in->name || !type) return ms_fail(p->err, MOIRE_EINVAL, "an input needs \"name\" and \"datatype\"");
    in->tensor.dtype = ms_type_find(type);
    if (in->tensor.dtype == MOIRE_NONE)
        return ms_fail(p->err, MOIRE_EINVAL, "input '%.100s': there is no datatype '%.40s'", in->name, type);
    if (in->tensor.dtype == MOIRE_STRING)
        return ms_fail(p->err, MOIRE_EINVAL, "input '%.100s': no model here takes BYTES", in->name);
    rc = read_shape(p, object, in);
    if (!rc) rc = read_place(p, object, &in->place);
    if (rc) return rc;
    const int64_t count = ms_elements(&in->tensor);
    const int64_t size = (int64_t)ms_type_bytes(in->tensor.dtype);
    if (count < 0 || (count > (int64_t)body * 8 / size && !in->place.region))
        return ms_fail(p->err, MOIRE_EINVAL,
                       "input '%.100s': its shape has more elements than the request has bytes for",
                       in->name);
    in->tensor.bytes = (size_t)(count * size);
    return read_data(p, object, in, count);
}

static int flag_of(const struct parser *p, const json_t *object, const char *key, bool standard, bool *out) {
    const json_t *v = json_object_get(object, key);
    *out = v ? json_is_true(v) : standard;
    if (!v || json_is_boolean(v)) return MOIRE_OK;
    return ms_fail(p->err, MOIRE_EINVAL, "\"%s\" of the request must be true or false", key);
}

static int read_output(struct parser *p, const json_t *object) {
    struct ms_wanted *out = &p->r->output[p->r->n_outputs++];
    const json_t *parameters;
    int rc = text_of(p, object, "name", &out->name);
    if (!rc) rc = member(p, object, "parameters", JSON_OBJECT, &parameters);
    if (rc) return rc;
    if (!out->name) return ms_fail(p->err, MOIRE_EINVAL, "an output needs a \"name\"");
    rc = read_place(p, object, &out->place);
    if (!rc) rc = whole_of(p, parameters, "classification", &out->classes);
    if (rc) return rc;
    return flag_of(p, parameters, "binary_data", p->r->binary, &out->binary);
}

static int read_list(struct parser *p, const char *key, size_t body) {
    const json_t *list;
    int rc = member(p, p->r->document, key, JSON_ARRAY, &list);
    if (rc) return rc;
    if (json_array_size(list) > MS_PORTS)
        return ms_fail(p->err, MOIRE_EINVAL, "a request may have %d %s", MS_PORTS, key);
    const bool inputs = !strcmp(key, "inputs");
    for (size_t i = 0; i < json_array_size(list) && !rc; i++)
        rc = inputs ? read_input(p, json_array_get(list, i), body) : read_output(p, json_array_get(list, i));
    return rc;
}

/* Parameters that have no meaning here are the client's own: passed over, if they are of a kind that the
 * protocol has. */
static int check_parameters(const struct parser *p, const json_t *parameters) {
    const char *key;
    const json_t *v;
    json_object_foreach((json_t *)(uintptr_t)parameters, key, v) {
        if (!json_is_boolean(v) && !json_is_number(v) && !json_is_string(v))
            return ms_fail(p->err, MOIRE_EINVAL,
                           "the parameter '%.60s' of the request is no boolean, number or string", key);
        const int rc = ms_parameter_check(key, p->err);
        if (rc) return rc;
    }
    const json_t *sequence = json_object_get(parameters, "sequence_id");
    if (!sequence || (json_is_integer(sequence) && !json_integer_value(sequence))) return MOIRE_OK;
    return ms_fail(p->err, MOIRE_EUNSUPPORTED, "sequences are not served: leave \"sequence_id\" out");
}

static int read_document(struct parser *p, size_t body) {
    const json_t *parameters;
    int rc = text_of(p, p->r->document, "id", &p->r->id);
    if (!rc && p->r->id && !*p->r->id) p->r->id = NULL;
    if (!rc) rc = member(p, p->r->document, "parameters", JSON_OBJECT, &parameters);
    if (!rc) rc = check_parameters(p, parameters);
    if (!rc) rc = flag_of(p, parameters, "binary_data_output", false, &p->r->binary);
    if (rc) return rc;
    rc = whole_of(p, parameters, "priority", &p->r->priority);
    if (!rc) rc = whole_of(p, parameters, "timeout", &p->r->timeout_us);
    if (!rc) rc = read_list(p, "inputs", body);
    if (!rc) rc = read_list(p, "outputs", body);
    if (!rc && p->left)
        return ms_fail(p->err, MOIRE_EINVAL, "%zu bytes stand behind the last input of the request", p->left);
    return rc;
}

int ms_parameter_check(const char *name, moire_error *err) {
    if (strncmp(name, "triton_", 7) != 0 || !strcmp(name, "triton_enable_empty_final_response"))
        return MOIRE_OK;
    return ms_fail(err, MOIRE_EINVAL,
                   "the parameter '%.60s': names that begin with triton_ are the protocol's own", name);
}

int ms_request_parse(const char *body, size_t n, size_t json_bytes, struct ms_request *out,
                     moire_error *err) {
    *out = (struct ms_request){0};
    if (json_bytes > n)
        return ms_fail(err, MOIRE_EINVAL, "Inference-Header-Content-Length is %zu, the body has %zu bytes",
                       json_bytes, n);
    json_error_t why;
    out->document = json_loadb(body ? body : "", json_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!out->document)
        return ms_fail(err, MOIRE_EINVAL, "the request is no JSON: line %d, column %d: %.200s", why.line,
                       why.column, why.text);
    struct parser p = {.r = out, .binary = body + json_bytes, .left = n - json_bytes, .err = err};
    const int rc = json_is_object(out->document)
                       ? read_document(&p, n)
                       : ms_fail(err, MOIRE_EINVAL, "the request is no JSON object");
    if (rc) ms_request_close(out);
    return rc;
}

void ms_request_close(struct ms_request *request) {
    for (int i = 0; i < request->n_inputs; i++)
        free(request->input[i].owned);
    json_decref(request->document);
    *request = (struct ms_request){0};
}
