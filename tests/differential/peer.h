/* SPDX-License-Identifier: Apache-2.0
 * peer.h - ONNX Runtime in a Python process beside us, fed through pipes. */
#ifndef MO_DT_PEER_H
#define MO_DT_PEER_H
#include "tests/differential/case.h"

struct dt_peer;
/* NULL: this Python has no ONNX Runtime, or cannot be started. */
struct dt_peer *dt_peer_start(const char *python, const char *worker);
void dt_peer_stop(struct dt_peer *peer);
/* 0 and outputs (to be freed with free()), or -1 and a reason.  A process that died is started again. */
int dt_peer_run(struct dt_peer *peer, const struct dt_case *c, moire_tensor outputs[DT_PORTS], int *n,
                char *reason, size_t room);
#endif
