/* SPDX-License-Identifier: Apache-2.0
 * control_case.h - a small model with bodies and the answers that are known for it: given by the references
 * of the file as it is and after the passes, and by a plan. */
#ifndef MO_CONTROL_CASE_H
#define MO_CONTROL_CASE_H
#include "tests/unit/codegen/onnx_build.h"

enum { CONTROL_BODIES = 20, CONTROL_PORTS = 8 };

struct control {
    struct ob *main, *body[CONTROL_BODIES];
    int n_bodies, n_in;
    moire_tensor in[CONTROL_PORTS];
};

/* The model's own graph, and one for each body, in the order of the calls. */
struct ob *control_main(struct control *c, int opset);
struct ob *control_body(struct control *c);
void control_end(struct control *c);
/* The next input of the model; the data are copied. */
void control_in(struct control *c, moire_dtype dtype, const char *shape, const void *data);
/* Output k is of this shape, with these values (float32 or integers), exactly, in every way. */
void control_expect(struct control *c, int k, const char *shape, const float *values);
/* Every way fails with a message that has this text. */
void control_fails(struct control *c, const char *text);
/* A plan runs it, and has no answer to give. */
void control_no_answer(struct control *c);
/* The model is not loaded; the message has both texts. */
void control_refused(struct control *c, int code, const char *one, const char *other);
#endif
