/* SPDX-License-Identifier: Apache-2.0
 * publish.h - puts a compiled model into the store: the plan that a server would make from the ONNX file,
 * with its packed weights and solo profile, so that the next server finds it ready. */
#ifndef MO_PUBLISH_H
#define MO_PUBLISH_H
#include "runtime/plan/slow.h"
#include "tools/moire/verify/verify.h"

struct mo_published {
    bool reused;          /* the store had it already */
    int64_t bytes;        /* of the compiled model */
    int64_t packed_bytes; /* packed weights in it */
    struct mo_slow slow;  /* hot layers that run by the slow reference, also when it could not be stored */
};

/* Loads request->path on all cores with the store at `store`, measures its profile, writes the compiled
 * model, and loads that again: an answer that differs in one bit takes the stamp back and is MOIRE_EFAILED.
 * ISA levels other than the machine's best are MOIRE_EUNSUPPORTED: no server would ask for them.
 * `verified` is what mo_verify_model() found of this model and is stored with it; MOIRE_EBUSY when its
 * kernels are others since.  NULL: it was not verified (tests). */
int mo_publish(const struct mo_env *env, const char *store, const struct mo_compiled_request *request,
               const struct mo_verified *verified, struct mo_published *out, moire_error *err);
#endif
