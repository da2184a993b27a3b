/* SPDX-License-Identifier: Apache-2.0
 * stuck_models.h - whether a model, or the whole server, waits for a worker that does not come back: what
 * readiness, the index and metrics say of it.
 *
 * A model is stuck when a block or a callback of one of its tenants is, or of a model that it is made of; the
 * server is when no core is left to serve.  A look costs a walk over the blocks that run. */
#ifndef MS_STUCK_H
#define MS_STUCK_H
#include "serve/repository/repository.h"

enum { MS_STUCK_ROWS = 64, MS_STUCK_WHY = 200 };
struct ms_stuck {
    moire_stuck_row row[MS_STUCK_ROWS];
    int n;
    bool all; /* nothing is served */
};

void ms_stuck_look(const struct ms_repository *repository, struct ms_stuck *out);
/* Whether the model is; why: what does not come back, "" where it is not stuck. */
bool ms_stuck_is(const struct ms_stuck *stuck, struct ms_model *model, char why[MS_STUCK_WHY]);

/* For who is asked whether it is ready: the server; and a model, which is not where the server is not served
 * by any core. */
bool ms_stuck_server(const struct ms_repository *repository, char why[MS_STUCK_WHY]);
bool ms_stuck_model(struct ms_model *model, char why[MS_STUCK_WHY]);
#endif
