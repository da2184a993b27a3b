/* SPDX-License-Identifier: Apache-2.0
 * exposition.h - what Prometheus reads: counters and histograms of every model, and the runtime's state. */
#ifndef MS_EXPOSITION_H
#define MS_EXPOSITION_H
#include "serve/repository/repository.h"

/* Appends the text format, version 0.0.4. */
void ms_exposition_write(struct ms_repository *repository, moire_runtime *runtime, struct ms_bytes *to);
#endif
