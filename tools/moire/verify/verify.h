/* SPDX-License-Identifier: Apache-2.0
 * verify.h - a compiled model is verified as a whole before it is published: its compiled kernels against
 * built-in ones, in its own plan, at the shapes it was compiled for (verify_steps.h).
 *
 * A kernel that is wrong there serves nobody any more: its layer is taken out of the store, whatever model
 * uses it, and the model is verified again with the built-in kernel in its place. */
#ifndef MO_VERIFY_H
#define MO_VERIFY_H
#include "runtime/plan/compiled.h"

/* What came of it. */
struct mo_verified {
    char state[MO_SHA256_HEX]; /* of the plan that was verified: mo_compiled_state() */
    int layers;                /* with compiled kernels, all right now */
    int versions;              /* of these layers in sum */
    int unverified;            /* layers with shapes known at run time only that could else be compiled, and
                                  compiled ones that could not be run */
    double error;              /* largest of a layer, relative to its range */
    char layer[96];            /* that layer; plain text */
    bool whole;                /* both plans ran from inputs to outputs: */
    double whole_error, whole_allowed; /* as struct mo_step_findings */
    int withdrawn;                     /* layers that were wrong */
    bool cut;                          /* time was up before all this was known */
};

/* A layer whose compiled kernel was wrong. */
struct mo_withdrawn {
    const char *layer, *op, *signature, *kernel; /* layer: untrusted text */
    const char *why;                             /* "differs by 0.41 of the range in image 1" */
    int version;
    double error;
};

struct mo_verifier {
    const char *store;
    struct mo_compiled_request request;
    uint64_t seed;
    int64_t ends;                                                   /* time at which to give up; 0: none */
    void (*withdrawn)(void *ctx, const struct mo_withdrawn *layer); /* each, as it is found; may be NULL */
    void *ctx;
};
/* Fails when the model cannot be loaded or verified, or the store cannot be written; the model is not to be
 * published then.  out->whole_error above out->whole_allowed, unless that is 0: the layers are right and the
 * model is not; it is not to be published either. */
int mo_verify_model(const struct mo_env *env, const struct mo_verifier *verifier, struct mo_verified *out,
                    moire_error *err);
/* Whether what was found forbids to publish the model. */
bool mo_verified_is_wrong(const struct mo_verified *verified);
#endif
