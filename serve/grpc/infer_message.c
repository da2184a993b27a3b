/* SPDX-License-Identifier: Apache-2.0
 * infer_message.c - reads infer requests of gRPC and makes the answers; see infer_message.h. */
#include "serve/grpc/infer_message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"

typedef Inference__ModelInferRequest__InferInputTensor input_message;
typedef Inference__InferTensorContents contents_message;

/* --- typed contents --- */
/* Where `contents` has the elements of a type: how many, the list, and bytes of an element there. */
#define LIST(name, size) offsetof(contents_message, n_##name), offsetof(contents_message, name), size
static const struct place {
    moire_dtype type;
    size_t count, list, bytes;
    int64_t least, most; /* of a narrower type */
} places[] = {
    {MOIRE_BOOL, LIST(bool_contents, sizeof(protobuf_c_boolean)), 0, 1},
    {MOIRE_I8, LIST(int_contents, 4), INT8_MIN, INT8_MAX},
    {MOIRE_I16, LIST(int_contents, 4), INT16_MIN, INT16_MAX},
    {MOIRE_I32, LIST(int_contents, 4), 0, 0},
    {MOIRE_I64, LIST(int64_contents, 8), 0, 0},
    {MOIRE_U8, LIST(uint_contents, 4), 0, UINT8_MAX},
    {MOIRE_U16, LIST(uint_contents, 4), 0, UINT16_MAX},
    {MOIRE_U32, LIST(uint_contents, 4), 0, 0},
    {MOIRE_U64, LIST(uint64_contents, 8), 0, 0},
    {MOIRE_F32, LIST(fp32_contents, 4), 0, 0},
    {MOIRE_F64, LIST(fp64_contents, 8), 0, 0},
};
#undef LIST

/* Elements in all lists; only that of the type may have any. */
static size_t all_elements(const contents_message *c) {
    return c->n_bool_contents + c->n_int_contents + c->n_int64_contents + c->n_uint_contents +
           c->n_uint64_contents + c->n_fp32_contents + c->n_fp64_contents + c->n_bytes_contents;
}

/* Elements of 1 or 2 bytes come as 32 bits. */
static int narrow(const struct place *p, const void *list, size_t n, struct ms_input *in, moire_error *err) {
    for (size_t i = 0; i < n; i++) {
        const int64_t v = p->least < 0 ? ((const int32_t *)list)[i] : (int64_t)((const uint32_t *)list)[i];
        if (v < p->least || v > p->most)
            return ms_fail(err, MOIRE_EINVAL,
                           "input '%.100s': element %zu is %" PRId64 ", which %s cannot hold", in->name, i, v,
                           ms_type_name(p->type));
        if (ms_type_bytes(p->type) == 1)
            ((uint8_t *)in->tensor.data)[i] = (uint8_t)v;
        else
            ((uint16_t *)in->tensor.data)[i] = (uint16_t)v;
    }
    return MOIRE_OK;
}

static int read_contents(const contents_message *c, int64_t count, struct ms_input *in, moire_error *err) {
    const struct place *p = places, *end = places + sizeof places / sizeof *places;
    while (p < end && p->type != in->tensor.dtype)
        p++;
    if (p == end)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s': elements of %s come in raw_input_contents only",
                       in->name, ms_type_name(in->tensor.dtype));
    const size_t n = *(const size_t *)(const void *)((const char *)c + p->count);
    void *list = *(void *const *)(const void *)((const char *)c + p->list);
    if ((int64_t)n != count || n != all_elements(c))
        return ms_fail(err, MOIRE_EINVAL,
                       "input '%.100s': its contents have %zu elements of its type and %zu in all, its shape "
                       "takes %" PRId64,
                       in->name, n, all_elements(c), count);
    if (p->bytes == ms_type_bytes(p->type)) {
        in->tensor.data = list;
        return MOIRE_OK;
    }
    in->tensor.data = in->owned = malloc(in->tensor.bytes ? in->tensor.bytes : 1);
    if (!in->owned) return ms_fail(err, MOIRE_ENOMEM, "no memory for input '%.100s'", in->name);
    return narrow(p, list, n, in, err);
}

/* --- tensors --- */
static int read_type(const input_message *m, struct ms_input *in, moire_error *err) {
    in->name = m->name;
    in->tensor.dtype = ms_type_find(m->datatype);
    if (!*m->name) return ms_fail(err, MOIRE_EINVAL, "an input has no name");
    if (in->tensor.dtype == MOIRE_NONE)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s': there is no datatype '%.40s'", m->name,
                       m->datatype);
    if (in->tensor.dtype == MOIRE_STRING)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s': no model here takes BYTES", m->name);
    if (m->n_shape > MOIRE_MAX_RANK)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s' has more than %d dimensions", m->name,
                       MOIRE_MAX_RANK);
    in->tensor.rank = (int)m->n_shape;
    if (m->n_shape) memcpy(in->tensor.shape, m->shape, m->n_shape * sizeof *m->shape);
    return MOIRE_OK;
}

static int parameter_whole(const char *key, const Inference__InferParameter *p, int64_t *out,
                           moire_error *err) {
    if (p && p->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM)
        *out = p->int64_param;
    else if (p && p->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM)
        *out = p->uint64_param > INT64_MAX ? INT64_MAX : (int64_t)p->uint64_param;
    else
        *out = -1;
    return *out < 0 ? ms_fail(err, MOIRE_EINVAL, "\"%s\" of the request is no whole number from 0", key)
                    : MOIRE_OK;
}

/* A parameter that says where a tensor lies, or another. */
static int read_place(char *key, Inference__InferParameter *v, struct ms_place *out, moire_error *err) {
    int64_t *number = !strcmp(key, "shared_memory_offset")      ? &out->offset
                      : !strcmp(key, "shared_memory_byte_size") ? &out->bytes
                                                                : NULL;
    if (number) return parameter_whole(key, v, number, err);
    if (strcmp(key, "shared_memory_region") != 0) return MOIRE_OK;
    if (!v || v->parameter_choice_case != INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM)
        return ms_fail(err, MOIRE_EINVAL, "\"%s\" must be a string_param", key);
    out->region = v->string_param;
    return MOIRE_OK;
}

static bool is_elsewhere(const input_message *m) {
    for (size_t i = 0; i < m->n_parameters; i++)
        if (!strcmp(m->parameters[i]->key, "shared_memory_region")) return true;
    return false;
}

static int read_input(const input_message *m, const ProtobufCBinaryData *raw, struct ms_input *in,
                      moire_error *err) {
    int rc = read_type(m, in, err);
    if (rc) return rc;
    for (size_t i = 0; i < m->n_parameters && !rc; i++)
        rc = read_place(m->parameters[i]->key, m->parameters[i]->value, &in->place, err);
    if (rc) return rc;
    const int64_t count = ms_elements(&in->tensor);
    if (count < 0) return ms_fail(err, MOIRE_EINVAL, "input '%.100s': its shape is no shape", m->name);
    in->tensor.bytes = (size_t)count * ms_type_bytes(in->tensor.dtype);
    if (in->place.region && m->contents)
        return ms_fail(err, MOIRE_EINVAL,
                       "input '%.100s' has contents and shared memory; one of them is right", m->name);
    if (in->place.region) return MOIRE_OK;
    if (raw && m->contents)
        return ms_fail(err, MOIRE_EINVAL,
                       "input '%.100s' has contents and raw contents; one of them is right", m->name);
    if (!raw && !m->contents && count)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s' has no contents", m->name);
    if (!raw) return m->contents ? read_contents(m->contents, count, in, err) : MOIRE_OK;
    if (raw->len != in->tensor.bytes)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s': %zu bytes were given, its shape and type take %zu",
                       m->name, raw->len, in->tensor.bytes);
    in->tensor.data = raw->data;
    return MOIRE_OK;
}

static int read_inputs(const Inference__ModelInferRequest *m, struct ms_request *out, moire_error *err) {
    if (m->n_inputs > MS_PORTS || m->n_outputs > MS_PORTS)
        return ms_fail(err, MOIRE_EINVAL, "a request may have %d inputs and outputs", MS_PORTS);
    size_t raw = 0, elsewhere = 0;
    for (size_t i = 0; i < m->n_inputs; i++)
        elsewhere += is_elsewhere(m->inputs[i]);
    if (m->n_raw_input_contents && m->n_raw_input_contents != m->n_inputs - elsewhere)
        return ms_fail(err, MOIRE_EINVAL,
                       "the request has %zu inputs that are not in shared memory and %zu raw_input_contents",
                       m->n_inputs - elsewhere, m->n_raw_input_contents);
    int rc = MOIRE_OK;
    for (size_t i = 0; i < m->n_inputs && !rc; i++) {
        const bool takes = m->n_raw_input_contents && !is_elsewhere(m->inputs[i]);
        rc = read_input(m->inputs[i], takes ? &m->raw_input_contents[raw++] : NULL,
                        &out->input[out->n_inputs++], err);
    }
    return rc;
}

static int read_output_parameters(const Inference__ModelInferRequest__InferRequestedOutputTensor *o,
                                  struct ms_wanted *wanted, moire_error *err) {
    for (size_t k = 0; k < o->n_parameters; k++) {
        const char *key = o->parameters[k]->key;
        const Inference__InferParameter *v = o->parameters[k]->value;
        const int rc = read_place(o->parameters[k]->key, o->parameters[k]->value, &wanted->place, err);
        if (rc) return rc;
        if (strcmp(key, "classification") != 0) continue;
        if (!v || v->parameter_choice_case != INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM ||
            v->int64_param < 1)
            return ms_fail(err, MOIRE_EINVAL,
                           "output '%.100s': \"classification\" must be an int64_param of 1 or more",
                           o->name);
        wanted->classes = v->int64_param;
    }
    return MOIRE_OK;
}

static int read_outputs(const Inference__ModelInferRequest *m, struct ms_request *out, moire_error *err) {
    for (size_t i = 0; i < m->n_outputs; i++) {
        const Inference__ModelInferRequest__InferRequestedOutputTensor *o = m->outputs[i];
        struct ms_wanted *wanted = &out->output[out->n_outputs++];
        *wanted = (struct ms_wanted){.name = o->name, .binary = true};
        const int rc = read_output_parameters(o, wanted, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* --- the request --- */
static int whole_of(const Inference__ModelInferRequest__ParametersEntry *e, int64_t *out, moire_error *err) {
    return parameter_whole(e->key, e->value, out, err);
}

/* Number 0: no sequence. */
static int check_sequence(const Inference__ModelInferRequest__ParametersEntry *e, moire_error *err) {
    int64_t id;
    if (!whole_of(e, &id, NULL) && !id) return MOIRE_OK;
    return ms_fail(err, MOIRE_EUNSUPPORTED, "sequences are not served: leave \"sequence_id\" out");
}

static int read_parameters(const Inference__ModelInferRequest *m, struct ms_request *out, moire_error *err) {
    int rc = MOIRE_OK;
    for (size_t i = 0; i < m->n_parameters && !rc; i++) {
        const Inference__ModelInferRequest__ParametersEntry *e = m->parameters[i];
        if (!strcmp(e->key, "priority"))
            rc = whole_of(e, &out->priority, err);
        else if (!strcmp(e->key, "timeout"))
            rc = whole_of(e, &out->timeout_us, err);
        else if (!strcmp(e->key, "sequence_id"))
            rc = check_sequence(e, err);
        else
            rc = ms_parameter_check(e->key, err);
    }
    return rc;
}

int ms_infer_message_read(const Inference__ModelInferRequest *m, struct ms_request *out, moire_error *err) {
    *out = (struct ms_request){.id = *m->id ? m->id : NULL, .binary = true};
    int rc = read_parameters(m, out, err);
    if (!rc) rc = read_inputs(m, out, err);
    if (!rc) rc = read_outputs(m, out, err);
    if (rc) ms_request_close(out);
    return rc;
}

/* --- the answer --- */
static char *text(const char *t) {
    return (char *)(uintptr_t)(t ? t : ""); /* messages have no const */
}

int ms_infer_message_write(const struct ms_response *r, struct ms_infer_message *out, moire_error *err) {
    inference__model_infer_response__init(&out->message);
    out->message.model_name = text(r->model);
    out->message.model_version = text(r->version);
    out->message.id = text(r->id);
    for (int i = 0; i < r->n_outputs; i++) {
        const moire_tensor *t = &r->output[i].tensor;
        if (!ms_type_name(t->dtype))
            return ms_fail(err, MOIRE_EUNSUPPORTED, "output '%.100s' is of a type that is not served",
                           r->output[i].name);
        inference__model_infer_response__infer_output_tensor__init(&out->tensor[i]);
        out->tensor[i].name = text(r->output[i].name);
        out->tensor[i].datatype = text(ms_type_name(t->dtype));
        out->tensor[i].n_shape = (size_t)t->rank;
        out->tensor[i].shape = (int64_t *)(uintptr_t)t->shape;
        out->tensors[i] = &out->tensor[i];
        out->raw[i] = r->output[i].is_elsewhere ? (ProtobufCBinaryData){0}
                                                : (ProtobufCBinaryData){.len = t->bytes, .data = t->data};
    }
    out->message.n_outputs = out->message.n_raw_output_contents = (size_t)r->n_outputs;
    out->message.outputs = out->tensors;
    out->message.raw_output_contents = out->raw;
    return MOIRE_OK;
}

void ms_infer_message_is_last(struct ms_infer_message *m) {
    inference__infer_parameter__init(&m->last);
    inference__model_infer_response__parameters_entry__init(&m->entry);
    m->last.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    m->last.bool_param = true;
    m->entry.key = text("triton_final_response");
    m->entry.value = &m->last;
    m->entries[0] = &m->entry;
    m->message.parameters = m->entries;
    m->message.n_parameters = 1;
}
