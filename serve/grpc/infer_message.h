/* SPDX-License-Identifier: Apache-2.0
 * infer_message.h - infer requests and answers as gRPC has them. */
#ifndef MS_INFER_MESSAGE_H
#define MS_INFER_MESSAGE_H
#include "inference.pb-c.h"
#include "serve/protocol/kserve.h"

/* The request points into the message, and is to be closed; its tensors are those of `contents`, or the raw
 * ones in the order of inputs.
 * Returns: MOIRE_OK; MOIRE_EINVAL: malformed; MOIRE_EUNSUPPORTED: an extension that is not served;
 * MOIRE_ENOMEM. */
int ms_infer_message_read(const Inference__ModelInferRequest *message, struct ms_request *out,
                          moire_error *err);

/* An answer that points into `response`; nothing of it is to be freed. */
struct ms_infer_message {
    Inference__ModelInferResponse message;
    Inference__ModelInferResponse__InferOutputTensor tensor[MS_PORTS], *tensors[MS_PORTS];
    ProtobufCBinaryData raw[MS_PORTS];
    Inference__InferParameter last;
    Inference__ModelInferResponse__ParametersEntry entry, *entries[1];
};
/* Says that no further answer to the request comes, as Triton does on streams. */
void ms_infer_message_is_last(struct ms_infer_message *message);
int ms_infer_message_write(const struct ms_response *response, struct ms_infer_message *out,
                           moire_error *err);
#endif
