/* SPDX-License-Identifier: Apache-2.0
 * quantize_show.h - what a quantization found: a table, JSON, a page. */
#ifndef MO_TOOLS_QUANTIZE_SHOW_H
#define MO_TOOLS_QUANTIZE_SHOW_H
#include "codegen/quantize/quantize_model.h"
#include "tools/moire/command_line/options.h"

struct mo_quantize_shown {
    const struct mo_env *env;
    const struct mo_options *o;
    const char *model;
    const struct mo_quantization *q;
    int n_samples;
    bool drawn;
    enum mo_range_method method;
};
void mo_quantize_show_text(const struct mo_quantize_shown *s);
int mo_quantize_show_json(const struct mo_quantize_shown *s, moire_error *err);
int mo_quantize_show_page(const struct mo_quantize_shown *s, const char *path, moire_error *err);
#endif
