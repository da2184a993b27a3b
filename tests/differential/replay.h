/* SPDX-License-Identifier: Apache-2.0
 * replay.h - models through the net: a random one by its seed, a file, a folder of failures of the past; a
 * new failure is shrunk and written down. */
#ifndef MO_DT_REPLAY_H
#define MO_DT_REPLAY_H
#include "tests/differential/net.h"

struct dt_counts {
    int passed, failed, skipped;
};
void dt_try_seed(struct dt_net *net, uint64_t seed, unsigned ways, struct dt_counts *counts);
/* NAME.onnx with several draws of inputs, and with those of NAME.npy or NAME.<k>.npy where these are there.
 */
void dt_try_file(struct dt_net *net, const char *path, struct dt_counts *counts);
void dt_try_folder(struct dt_net *net, const char *folder, struct dt_counts *counts);
#endif
