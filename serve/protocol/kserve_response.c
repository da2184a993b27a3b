/* SPDX-License-Identifier: Apache-2.0
 * kserve_response.c - writes answers to infer requests; see kserve.h. */
#include <inttypes.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/kserve.h"
#include "serve/protocol/kserve_values.h"

static int write_output(const struct ms_output *out, struct ms_bytes *to, moire_error *err) {
    const char *type = ms_type_name(out->tensor.dtype);
    if (!type)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "output '%.100s' is of a type that is not served", out->name);
    ms_bytes_print(to, "{\"name\":");
    ms_bytes_quote(to, out->name);
    ms_bytes_print(to, ",\"datatype\":\"%s\",\"shape\":[", type);
    for (int i = 0; i < out->tensor.rank; i++)
        ms_bytes_print(to, "%s%" PRId64, i ? "," : "", out->tensor.shape[i]);
    int rc = MOIRE_OK;
    ms_bytes_print(to, out->is_elsewhere ? "]" : "],");
    if (out->is_elsewhere) {
        /* its client reads it where it lies */
    } else if (out->binary) {
        ms_bytes_print(to, "\"parameters\":{\"binary_data_size\":%zu}", out->tensor.bytes);
    } else {
        ms_bytes_print(to, "\"data\":");
        rc = ms_values_write(&out->tensor, out->name, to, err);
    }
    ms_bytes_print(to, "}");
    return rc;
}

int ms_response_write(const struct ms_response *r, struct ms_bytes *to, size_t *json_bytes,
                      moire_error *err) {
    const size_t begin = to->n;
    bool binary = false;
    ms_bytes_print(to, "{\"model_name\":");
    ms_bytes_quote(to, r->model);
    ms_bytes_print(to, ",\"model_version\":\"%s\"", r->version);
    if (r->id) {
        ms_bytes_print(to, ",\"id\":");
        ms_bytes_quote(to, r->id);
    }
    ms_bytes_print(to, ",\"outputs\":[");
    for (int i = 0; i < r->n_outputs; i++) {
        if (i) ms_bytes_print(to, ",");
        const int rc = write_output(&r->output[i], to, err);
        if (rc) return rc;
        binary |= r->output[i].binary && !r->output[i].is_elsewhere;
    }
    ms_bytes_print(to, "]}");
    *json_bytes = binary ? to->n - begin : 0;
    for (int i = 0; i < r->n_outputs; i++)
        if (r->output[i].binary && !r->output[i].is_elsewhere)
            ms_bytes_put(to, r->output[i].tensor.data, r->output[i].tensor.bytes);
    return to->failed ? ms_fail(err, MOIRE_ENOMEM, "no memory for the answer") : MOIRE_OK;
}
