/* SPDX-License-Identifier: Apache-2.0
 * common.h - what tenants of one ONNX file have in common, whatever their shapes: the model as it was
 * imported, its packed weights, and how long its layers take.
 *
 * A file is recognised by what the file system says of it (runtime/plan/compiled.h) and of the files with its
 * external data; one that was written to since is another.  What is common goes with the last tenant.  Plans
 * are built one at a time (`building`), so that nobody uses packed weights that are being filled; they may go
 * at any time. */
#ifndef MO_SERVE_COMMON_H
#define MO_SERVE_COMMON_H
#include "codegen/imported.h"
#include "runtime/base/sha256.h"
#include "runtime/serve/runtime.h"

struct mo_layer_rates;
struct mo_common {
    struct mo_common *next;
    moire_runtime *runtime;
    int users;                      /* tenants and loads; guarded by the runtime's `listing` */
    char state[MO_SHA256_HEX];      /* of the file */
    char outside[MO_SHA256_HEX];    /* of the files with external data; once it is imported */
    struct mo_lock building;        /* guards what follows */
    struct mo_frontend_share share; /* imported: NULL before the first load */
    struct mo_layer_rates *rates;   /* NULL before one was measured */
    struct mo_tenant_choice {
        double tolerance; /* 0: nothing was measured */
        bool exact;
        enum moire_precision precision;
    } choice;                  /* the last that was made, for what is loaded at once */
    _Atomic int64_t constants; /* bytes of them that it has */
};

/* What tenants of the file have in common, begun where there is none yet; to be given back.
 * Returns: MOIRE_OK; MOIRE_EIO: there is no such file; MOIRE_ENOMEM. */
int mo_common_take(moire_runtime *rt, const char *path, struct mo_common **out, moire_error *err);
void mo_common_give(struct mo_common *common); /* NULL is fine */
/* Whether a plan can be made without the file and without measuring. */
bool mo_common_is_ready(struct mo_common *common);
/* A graph of layers for these shapes: from what is there, or from the file where `from_file` or when nothing
 * is.  `building` is held, until its plan is built.  MOIRE_ESTORE: not without the file. */
int mo_common_graph(struct mo_common *common, const char *path, const struct mo_frontend_options *options,
                    bool from_file, struct mo_graph **out, moire_error *err);
/* Adds what tenants share, each once.  `listing` is held. */
void mo_common_add(const moire_runtime *rt, moire_memory *sum);

/* tenant_precision.c: sets front->precision where a tolerance asks for a measurement; not under `building`.
 * MOIRE_ESTORE: a tenant that is loaded at once asks for what nobody has measured. */
int mo_tenant_settle(moire_tenant *tenant, const char *path, double tolerance,
                     const struct mo_plan_options *planning, struct mo_frontend_options *front);

/* layer_rates.c: times of layers as shares of what mo_step_estimate() says of them, for plans of the same
 * model at other shapes. */
struct mo_layer_rates *mo_layer_rates_create(const struct mo_plan *plan, const struct mo_profile *measured);
void mo_layer_rates_destroy(struct mo_layer_rates *rates); /* NULL is fine */
/* A finished profile: layers by the rate of the one of their name; rates NULL: by the estimate. */
int mo_layer_rates_foresee(const struct mo_layer_rates *rates, const struct mo_plan *plan, int cores,
                           struct mo_profile **out, moire_error *err);
#endif
