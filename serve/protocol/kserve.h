/* SPDX-License-Identifier: Apache-2.0
 * kserve.h - the Open Inference Protocol (KServe v2) without a network: infer requests and answers as JSON
 * with Triton's binary tensor extension.
 *
 * A parsed request points into the body that it was read from, and owns the document and the tensors that
 * came as JSON numbers.  Every fault is an error that names the input and what was expected; nothing is
 * guessed. */
#ifndef MS_KSERVE_H
#define MS_KSERVE_H
#include <jansson.h>
#include <stdbool.h>
#include "moire.h"
#include "serve/protocol/bytes.h"

enum { MS_PORTS = 64 }; /* inputs or outputs of a request */

/* "FP32" and so on.  Returns: NULL, MOIRE_NONE: there is none; 0 bytes: no type of fixed size. */
const char *ms_type_name(moire_dtype type);
moire_dtype ms_type_find(const char *name);
size_t ms_type_bytes(moire_dtype type);
/* Elements of its shape; -1: a dimension is negative, or they are more than any memory holds. */
int64_t ms_elements(const moire_tensor *tensor);
/* What a tensor of so many bytes takes where another one stands behind it: that may be of any type. */
static inline size_t ms_aligned(size_t bytes) {
    return (bytes + 15) & ~(size_t)15;
}

/* Where a tensor lies that is not in the message: shared memory of the client. */
struct ms_place {
    const char *region; /* NULL: it is in the message */
    int64_t offset, bytes;
};

struct ms_input {
    const char *name;
    moire_tensor tensor; /* without data where it lies elsewhere */
    struct ms_place place;
    void *owned; /* its data, where they came as JSON */
};

struct ms_wanted {
    const char *name;
    bool binary;
    struct ms_place place;
    int64_t classes; /* that many of its highest values, as text; 0: the tensor */
};

struct ms_request {
    json_t *document; /* names point into it; NULL for a raw body */
    const char *id;   /* NULL: none */
    struct ms_input input[MS_PORTS];
    int n_inputs;
    struct ms_wanted output[MS_PORTS]; /* none: all */
    int n_outputs;
    bool binary; /* what outputs are that say nothing */
    int64_t priority, timeout_us;
};

/* Reads `body`: json_bytes of JSON (all of it where json_bytes is n), then tensors in the order of inputs.
 * Returns: MOIRE_OK, and the request is to be closed; MOIRE_EINVAL: malformed; MOIRE_EUNSUPPORTED: an
 * extension that is not served; MOIRE_ENOMEM. */
int ms_request_parse(const char *body, size_t n, size_t json_bytes, struct ms_request *out, moire_error *err);
void ms_request_close(struct ms_request *request);
/* MOIRE_EINVAL: the name of a request's parameter is one that Triton keeps for itself. */
int ms_parameter_check(const char *name, moire_error *err);

/* An output as it goes out; data are not owned. */
struct ms_output {
    const char *name;
    moire_tensor tensor;
    bool binary, is_elsewhere; /* is_elsewhere: the message has its shape only */
};
struct ms_response {
    const char *model, *version, *id;
    struct ms_output output[MS_PORTS];
    int n_outputs;
};
/* Appends the answer; *json_bytes: length of its JSON, 0 where no output is binary.
 * Returns: MOIRE_OK; MOIRE_EINVAL: a value or type that JSON cannot express; MOIRE_ENOMEM. */
int ms_response_write(const struct ms_response *response, struct ms_bytes *to, size_t *json_bytes,
                      moire_error *err);
#endif
