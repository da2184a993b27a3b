/* SPDX-License-Identifier: Apache-2.0
 * exposition.h - what Prometheus reads, in its text format 0.0.4: a row of a table for each family of
 * metrics. */
#ifndef MS_EXPOSITION_H
#define MS_EXPOSITION_H
#include "serve/page/look.h"

/* Appends all; with the names that Triton gives them, too, where `nv` is set. */
void ms_exposition_write(struct ms_repository *repository, moire_runtime *runtime, bool nv,
                         struct ms_bytes *to);

/* Parts of it, for nv_metrics.c. */
void ms_exposition_head(struct ms_bytes *to, const char *name, const char *type, const char *help);
/* model="...",version="..." as the format escapes them. */
enum { MS_LABELS = 2 * MS_NAME + MS_VERSION + 40 };
void ms_exposition_labels(const struct ms_model_look *model, char labels[MS_LABELS]);
void ms_exposition_nv(const struct ms_look *look, struct ms_bytes *to);
#endif
